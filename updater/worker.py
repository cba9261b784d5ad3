"""The trainer child: `python -m updater.worker WORKDIR`. One plan in, one result out, killable at any moment.

Progress goes to stdout as JSON lines; the reason of a failure is the last line of stderr.
"""

import sys
from pathlib import Path

from memory.child import die_with_parent, say_progress
from memory.files import write_whole
from updater.train import train
from updater.training import PLAN_FILE, RESULT_FILE, TrainingPlan


def main() -> None:
    die_with_parent()
    workdir = Path(sys.argv[1])
    plan = TrainingPlan.model_validate_json((workdir / PLAN_FILE).read_text())
    result = train(plan, workdir, say_progress)
    write_whole(workdir / RESULT_FILE, result.model_dump_json().encode())


if __name__ == "__main__":
    main()
