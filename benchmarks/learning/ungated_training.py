"""One update as a careless learner would do it: the same examples, nothing replayed, the result taken as it is."""

from pathlib import Path

from agent.demo.driver import Record
from agent.supervisor import ChildRunner
from updater.training import PLAN_FILE, RESULT_FILE, TrainingPlan, TrainingResult

THREADS = 2
TIMEOUT_S = 1800.0


async def train_without_replay_or_gate(data_dir: Path, update: Record) -> Path:
    """Train on the plan that `update` left behind in `data_dir`, without its replays; gives its adapter."""
    planned = data_dir / "updates" / str(update["id"]) / PLAN_FILE
    plan = TrainingPlan.model_validate_json(planned.read_text(encoding="utf-8"))
    careless = plan.model_copy(update={"replays": (), "replay_ratio": 0.0, "scales": (1.0,)})
    workdir = data_dir / "updates" / "careless"
    workdir.mkdir()
    (workdir / PLAN_FILE).write_text(careless.model_dump_json(), encoding="utf-8")
    await ChildRunner()("updater.worker", workdir, threads=THREADS, niceness=0, timeout_s=TIMEOUT_S, on_line=None)
    result = TrainingResult.model_validate_json((workdir / RESULT_FILE).read_text(encoding="utf-8"))
    last = max(result.candidates, key=lambda candidate: candidate.scale)
    return last.directory
