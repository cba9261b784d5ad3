"""The trainer child: `python -m updater.worker WORKDIR`. One plan in, one result out, killable at any moment.

Progress goes to stdout as JSON lines; the reason of a failure is the last line of stderr.
"""

import json
import sys
from pathlib import Path

from memory.child import die_with_parent
from updater.train import train
from updater.training import PLAN_FILE, RESULT_FILE, TrainingPlan


def report(stage: str, done: int, total: int) -> None:
    sys.stdout.write(json.dumps({"stage": stage, "done": done, "total": total}) + "\n")
    sys.stdout.flush()


def main() -> None:
    die_with_parent()
    workdir = Path(sys.argv[1])
    plan = TrainingPlan.model_validate_json((workdir / PLAN_FILE).read_text())
    result = train(plan, workdir, report)
    temporary = workdir / f"{RESULT_FILE}.tmp"
    temporary.write_text(result.model_dump_json())
    temporary.rename(workdir / RESULT_FILE)


if __name__ == "__main__":
    main()
