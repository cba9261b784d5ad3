"""Does one update from people's own words teach what they asked for, and nothing else?

The demonstration's log under three seeds, and beside the first of them five other arms on the same log: frozen, memory
only, no replay and no gate, feedback permuted across interactions, the contrary wish. All through HTTP to real
daemons; the audit items are never served and memory is off but for the memory arm.

`SABOTAGE=no_training` runs everything but the update.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.demo.oracle import Summary, summarise
from agent.demo.report import TITLES, summary_cells
from agent.demo.scenario import Kind
from benchmarks.common import QUICK, Figure, console, finish, print_table, sabotage
from benchmarks.learning.arms import (
    Answers,
    Learned,
    Plan,
    contrary_arm,
    learn,
    memory_arm,
    permuted_arm,
    serve,
    ungated_arm,
)
from benchmarks.learning.checks import Check, check_arms, check_seed, harm_of

SEEDS = (0,) if QUICK else (0, 1, 2)
TARGET_SHARE = 0.85
MAX_SEEN = 160
"""Characters of a reason that the table shows; the last line has all of it."""


def main() -> int:
    started = time.perf_counter()
    broken = sabotage(("no_training",))
    with tempfile.TemporaryDirectory(prefix="demo-learning-") as folder:
        figure = asyncio.run(_run(Path(folder), Plan.quick() if QUICK else Plan.full(), broken))
    return finish(figure, started=started)


async def _run(folder: Path, plan: Plan, broken: str | None) -> Figure:
    learned = [await _learn_seed(folder, seed, plan, broken) for seed in SEEDS]
    first = learned[0]
    arms = await _run_arms(folder, first, plan)
    checks = [check for one in learned for check in check_seed(one, first.frozen)] + check_arms(first, arms)
    _print_audit(learned, arms)
    _print_checks(checks)
    return Figure(
        name="demo_learning",
        value=_worst_share(learned),
        target=f">= {TARGET_SHARE} of the audit's questions answered in one short sentence, in every seed",
        ok=all(check.ok for check in checks),
        details=details_of(learned, arms, checks),
    )


async def _learn_seed(folder: Path, seed: int, plan: Plan, broken: str | None) -> Learned:
    _say(f"seed {seed}: serving the log")
    log = await serve(folder / f"log-{seed}", seed)
    _say(f"seed {seed}: reflecting, updating, auditing")
    learned = await learn(log, folder / f"ours-{seed}", seed=seed, plan=plan, train=broken != "no_training")
    _say(f"seed {seed}: {learned.update['status']} after {learned.seconds:.0f} s{_short_line(learned.answers)}")
    if learned.quality is not None:
        _say(f"seed {seed}: told {learned.quality.hint!r}: {learned.quality.line}")
    return learned


async def _run_arms(folder: Path, first: Learned, plan: Plan) -> Mapping[str, Any]:
    """Every other arm of the plan, on the log of the first seed."""
    known = {
        "memory only": memory_arm,
        "no replay, no gate": ungated_arm,
        "permuted feedback": permuted_arm,
        "contrary wish": contrary_arm,
    }
    arms = {}
    for name in plan.arms:
        _say(f"arm: {name}")
        arms[name] = await known[name](first, folder / name.replace(",", "").replace(" ", "-"), plan)
        _say(f"arm: {name}: {arms[name].status}{_short_line(arms[name].answers)}")
    return arms


def _print_audit(learned: list[Learned], arms: Mapping[str, Any]) -> None:
    rows = _audit_rows("frozen", learned[0].frozen)
    for one in learned:
        rows += _audit_rows(f"ours, seed {one.seed}", one.answers)
    for name, arm in arms.items():
        rows += _audit_rows(name, arm.answers)
    columns = ("arm", "kind", "answers", "one short sentence", "95 % interval", "mean tokens", "ended")
    print_table("Audit items, memory off but for the memory arm", columns, rows)


def _audit_rows(arm: str, answers: Answers) -> list[tuple[str, ...]]:
    return [(arm, TITLES[kind], *summary_cells(summarise(given))) for kind, given in answers.items() if given]


def _print_checks(checks: list[Check]) -> None:
    rows = [("ok" if check.ok else "NO", check.name, check.seen[:MAX_SEEN]) for check in checks]
    print_table("What had to hold", ("", "check", "seen"), rows)


def _worst_share(learned: list[Learned]) -> float | None:
    shares = [_summary(one.answers).short_share for one in learned if one.answers]
    return min(shares) if len(shares) == len(learned) else None


def _short_line(answers: Answers) -> str:
    """What a run that is cut off has shown by then."""
    if not answers:
        return ""
    summary = _summary(answers)
    return f", {summary.num_short} of {summary.num_answers} questions in one short sentence"


def _summary(answers: Answers) -> Summary:
    return summarise(answers[Kind.QUESTION])


def details_of(learned: list[Learned], arms: Mapping[str, Any], checks: list[Check]) -> dict[str, Any]:
    """Everything that was measured, in what JSON can hold."""
    return {
        "seeds": {one.seed: _seed_details(one, learned[0].frozen) for one in learned},
        "arms": {
            name: {
                "status": arm.status,
                "reason": arm.reason,
                "audit": _shares(arm.answers),
                "frozen_under_its_limits": _shares(arm.base_answers),
            }
            for name, arm in arms.items()
        },
        "frozen": _shares(learned[0].frozen),
        "checks": {check.name: {"ok": check.ok, "seen": check.seen} for check in checks},
    }


def _seed_details(one: Learned, frozen: Answers) -> dict[str, Any]:
    return {
        "status": one.update["status"],
        "reason": one.update.get("reason"),
        "seconds_to_publication": round(one.seconds, 1),
        "seconds_by_stage": json.loads(one.update.get("metrics_json") or "{}").get("seconds_by_stage"),
        "audit": _shares(one.answers),
        "story_harm": harm_of(one.answers, frozen) if one.answers else None,
        "teacher_quality": asdict(one.quality) if one.quality else None,
        "why_trained": _why_line(one.why_trained),
        "why_left_out": _why_line(one.why_left_out),
    }


def _why_line(why: Mapping[str, Any] | None) -> str | None:
    """Which request, and the answer to `why` in one line."""
    if why is None:
        return None
    request = why["interaction"]["messages"][-1]["content"]
    return f"{why['interaction']['id']} ({request}): {why['answer']}"


def _shares(answers: Answers) -> dict[str, dict[str, Any]]:
    return {
        kind.value: {
            "n": summary.num_answers,
            "short": round(summary.short_share, 3),
            "wilson": [round(bound, 3) for bound in summary.short_bounds],
            "mean_tokens": round(summary.mean_tokens, 2),
            "ended": round(summary.ended_share, 3),
        }
        for kind, summary in ((kind, summarise(given)) for kind, given in answers.items() if given)
    }


def _say(line: str) -> None:
    console.print(f"[dim]{time.strftime('%H:%M:%S')}[/dim] {line}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
