"""`journeyman demo`: from an empty data directory to a policy that does what its users asked for.

Serve, reflect, update, audit, report: each is one call below. Everything goes through HTTP to a real daemon in a
process of its own; nothing here can reach into it.
"""

import asyncio
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import aiohttp
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from agent.demo.bystander import bystander
from agent.demo.daemon_process import DaemonFailed, RunningDaemon, running_daemon
from agent.demo.driver import (
    DaemonClient,
    DaemonRefused,
    OnProgress,
    Record,
    ServedVisit,
    measure,
    reflect,
    serve_log,
    update,
)
from agent.demo.oracle import Answer
from agent.demo.report import TITLES, DemoOutcome, print_outcome, print_where_to_look
from agent.demo.scenario import Audit, Kind, audit_items, make_scenario

QUESTION_SAMPLES = 2
STORY_SAMPLES = 1
AUDIT_SEED = 500_000_000
"""The same draws for every version: a paired comparison."""


def run_demo(data_dir: Path | None = None, *, seed: int = 0, console: Console | None = None) -> int:
    """Run the demonstration; gives 0 when a version was published."""
    screen = console or Console()
    exit_code = 1
    try:
        exit_code = asyncio.run(_demonstrate(data_dir or _temporary_directory(), seed, screen))
    except* (DaemonFailed, DaemonRefused, aiohttp.ClientError) as group:
        for line in dict.fromkeys(_messages(group)):
            screen.print(line, style="red", markup=False)
    return exit_code


def _messages(error: BaseException) -> list[str]:
    """What went wrong, one line an error, out of however many task groups it went through."""
    if isinstance(error, BaseExceptionGroup):
        return [line for inner in error.exceptions for line in _messages(inner)]
    return [str(error)]


def _temporary_directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="journeyman-demo-"))


async def _demonstrate(data_dir: Path, seed: int, console: Console) -> int:
    console.print(f"data directory: {data_dir}", highlight=False)
    with _progress(console) as progress:
        on_progress = _reporter(progress)
        async with running_daemon(data_dir, on_wait=lambda _: on_progress("starting the daemon", 0, 0)) as daemon:
            outcome, example_id = await _learn_and_audit(daemon, seed, on_progress)
    print_outcome(console, outcome)
    print_where_to_look(console, data_dir, example_id)
    return 0 if outcome.published else 1


async def _learn_and_audit(daemon: RunningDaemon, seed: int, on_progress: OnProgress) -> tuple[DemoOutcome, str]:
    async with DaemonClient(daemon.url) as client:
        started = time.monotonic()
        visits = await serve_log(client, make_scenario(seed), on_progress=on_progress)
        async with bystander(client) as attendance:
            await reflect(client, on_progress=on_progress)
            end = await update(client, on_progress=on_progress)
        seconds = time.monotonic() - started
        before = await audit(client, f"policy@v{end['parent_version']}", audit_items(), on_progress=on_progress)
        after = await _audit_published(client, end, on_progress)
    outcome = DemoOutcome(update=end, before=before, after=after, seconds_to_publication=seconds, attendance=attendance)
    return outcome, _first_question(visits)


async def audit(
    client: DaemonClient, model: str, items: Audit, *, on_progress: OnProgress | None = None
) -> Mapping[Kind, list[Answer]]:
    """Answers of `model` to requests nobody has served before, per kind."""
    asked = {Kind.QUESTION: (items.questions, QUESTION_SAMPLES), Kind.STORY: (items.stories, STORY_SAMPLES)}
    return {
        kind: await measure(
            client,
            model,
            prompts,
            samples=samples,
            seed=AUDIT_SEED,
            stage=f"auditing {model}: {TITLES[kind]}",
            on_progress=on_progress,
        )
        for kind, (prompts, samples) in asked.items()
    }


async def _audit_published(client: DaemonClient, end: Record, on_progress: OnProgress) -> Mapping[Kind, list[Answer]]:
    if end["status"] != "published":
        return {}
    return await audit(client, f"policy@v{end['published_version']}", audit_items(), on_progress=on_progress)


def _first_question(visits: list[ServedVisit]) -> str:
    return next(served.interaction_id for served in visits if served.visit.kind is Kind.QUESTION)


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _reporter(progress: Progress) -> OnProgress:
    """One bar per stage, made when the stage is first heard of; the earlier ones are done then."""
    bars: dict[str, TaskID] = {}

    def report(stage: str, done: int, total: int) -> None:
        if stage not in bars:
            _close_bars(progress)
            if not progress.console.is_terminal:  # where bars are not drawn, a line says how far it is
                progress.console.print(stage)
            bars[stage] = progress.add_task(stage, total=total or None)
        progress.update(bars[stage], completed=done, total=total or None)

    return report


def _close_bars(progress: Progress) -> None:
    for task in progress.tasks:
        if not task.finished:
            reached = task.completed or 1
            progress.update(task.id, completed=reached, total=reached)
