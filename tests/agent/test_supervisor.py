"""Children: real processes that are started, watched, restarted and stopped."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from agent.supervisor import Child, ChildRunner, ChildSpec, ChildState
from memory.child import ChildFailed

DOUBLE = "tests.agent.child_double"


def a_spec(folder: Path, *arguments: str) -> ChildSpec:
    socket = folder / "child.sock"
    return ChildSpec(name="double", argv=(DOUBLE, "--socket", str(socket), *arguments), threads=1, socket_path=socket)


@asynccontextmanager
async def running(child: Child) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(child.run())
        yield
        task.cancel()


async def test_child_is_ready_when_it_answers_and_gone_after(short_path: Path) -> None:
    """Ready means that a real request was answered; leaving stops the process."""
    became_ready = asyncio.Event()

    async def on_ready() -> None:
        became_ready.set()

    child = Child(a_spec(short_path), short_path, on_ready=on_ready)
    async with running(child):
        await child.wait_ready(30)
        pid = child.pid
        assert pid is not None
        assert became_ready.is_set()
        states = [child.state]
    states.append(child.state)
    assert states == [ChildState.READY, ChildState.STOPPED]
    assert not psutil.pid_exists(pid)


async def test_killed_child_is_started_again(short_path: Path) -> None:
    """A child that dies is restarted, made ready again, and counted."""
    num_ready = 0

    async def on_ready() -> None:
        nonlocal num_ready
        num_ready += 1

    child = Child(a_spec(short_path), short_path, on_ready=on_ready)
    async with running(child):
        await child.wait_ready(30)
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        while child.is_ready:  # noqa: ASYNC110 - nothing announces that a child is gone
            await asyncio.sleep(0.01)
        await child.wait_ready(30)
        assert child.pid != first
    assert (child.num_restarts, num_ready) == (1, 2)


async def test_child_that_never_starts_ends_with_its_last_words(short_path: Path) -> None:
    """What must start and cannot is an error with the child's own last line."""
    child = Child(a_spec(short_path, "--fail"), short_path)
    with pytest.raises(ChildFailed, match="the double did not start: exit code 1; there is no model here"):
        await child.run()


async def test_one_shot_child_reports_line_by_line(tmp_path: Path) -> None:
    """Lines of standard output arrive; threads and niceness are set by the parent."""
    lines = await run_order(tmp_path, "report")
    assert lines[0] == '{"stage": "one"}'
    threads, niceness = lines[1].split()
    assert int(threads) == 1
    assert int(niceness) >= 5


@pytest.mark.parametrize(("order", "reason"), [("fail", "out of luck"), ("die", "SIGABRT"), ("sleep", "longer than")])
async def test_one_shot_child_that_ends_badly_says_why(tmp_path: Path, order: str, reason: str) -> None:
    """A bad exit, a signal and the end of its time are all ChildFailed with the reason."""
    with pytest.raises(ChildFailed, match=reason):
        await run_order(tmp_path, order, timeout_s=2 if order == "sleep" else 60)


async def test_cancelling_kills_the_one_shot_child(tmp_path: Path) -> None:
    """Whoever stops waiting for a pass leaves no process behind."""
    (tmp_path / "order").write_text("sleep")
    runner, started = ChildRunner(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(
            runner(DOUBLE, tmp_path, threads=1, niceness=0, timeout_s=60, on_line=lambda _: started.set())
        )
        await started.wait()
        pid = runner.running[DOUBLE]
        task.cancel()
    assert not psutil.pid_exists(pid)
    assert runner.running == {}


async def run_order(workdir: Path, order: str, *, timeout_s: float = 60) -> list[str]:
    lines: list[str] = []
    (workdir / "order").write_text(order)
    await ChildRunner()(DOUBLE, workdir, threads=1, niceness=5, timeout_s=timeout_s, on_line=lines.append)
    return lines
