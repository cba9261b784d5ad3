"""What Journeyman costs: seconds of a second start, memory of each process idle and while training, the demo's time.

`SABOTAGE=torch_in_daemon` makes the daemon import torch, which its memory must show. `QUICK=1` leaves the training
out: it measures a start, idle memory and a few chats.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from agent.demo.daemon_process import SERVE, RunningDaemon, running_daemon
from agent.demo.driver import DaemonClient, measure, reflect, serve_log, update
from agent.demo.scenario import audit_items, make_scenario
from benchmarks.common import QUICK, Figure, finish, print_table, sabotage

MAX_START_S = 20.0
MAX_DAEMON_MB = 150.0
MAX_TOGETHER_MB = 3072.0
MAX_DEMO_S = 600.0
SAMPLE_INTERVAL_S = 0.5
MIB = 1024 * 1024

WITH_TORCH = (sys.executable, "-c", "import torch; from agent.cli.main import main; main()")


@dataclass(slots=True)
class Peaks:
    """Highest memory seen, MiB, per process and for all together at one moment."""

    rss_mb: dict[str, float] = field(default_factory=dict)
    pss_mb: dict[str, float] = field(default_factory=dict)
    together_mb: float = 0.0
    """Proportional set sizes added up: shared pages count once."""

    def observe(self, pid: int) -> None:
        together = 0.0
        for process in _family(pid):
            try:
                memory = process.memory_full_info()
                name = _name_of(process, pid)
            except psutil.NoSuchProcess:
                continue
            together += memory.pss / MIB
            self.rss_mb[name] = max(self.rss_mb.get(name, 0.0), memory.rss / MIB)
            self.pss_mb[name] = max(self.pss_mb.get(name, 0.0), memory.pss / MIB)
        self.together_mb = max(self.together_mb, together)


def main() -> int:
    started = time.perf_counter()
    broken = sabotage(("torch_in_daemon",))
    with tempfile.TemporaryDirectory(prefix="footprint-") as folder:
        figure = asyncio.run(_run(Path(folder) / "data", WITH_TORCH if broken else SERVE))
    return finish(figure, started=started)


async def _run(data_dir: Path, command: Sequence[str]) -> Figure:
    async with running_daemon(data_dir, command=command):
        pass  # the first start may fetch and convert models
    begun = time.perf_counter()
    async with running_daemon(data_dir, command=command) as daemon:
        start_s = time.perf_counter() - begun
        idle = await _observe(daemon, asyncio.sleep(10))
        serving = await _observe(daemon, _chat(daemon))
        demo_s, status, training = (None, None, None) if QUICK else await _learn(daemon)
    phases = {"idle": idle, "serving": serving} | ({"learning": training} if training else {})
    _print_phases(phases)
    rows = _judge(start_s, phases, demo_s, status)
    print_table("What had to hold", ("", "figure", "seen", "at most"), rows)
    return Figure(
        name="footprint",
        value=round(max(peaks.together_mb for peaks in phases.values()), 1),
        target=f"<= {MAX_TOGETHER_MB:.0f} MiB together; start, daemon and demonstration within theirs",
        ok=all(row[0] == "ok" for row in rows),
        details={"start_s": round(start_s, 1), "demo_s": demo_s, "update": status, "phases": _details(phases)},
    )


async def _chat(daemon: RunningDaemon) -> None:
    async with DaemonClient(daemon.url) as client:
        await measure(client, "policy", audit_items().questions[:16], samples=1, seed=1)


async def _learn(daemon: RunningDaemon) -> tuple[float, str, Peaks]:
    """The demonstration up to the end of its update: seconds, status, and memory from reflection on."""
    async with DaemonClient(daemon.url) as client:
        begun = time.perf_counter()
        await serve_log(client, make_scenario(0))
        peaks = Peaks()
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_watch(daemon.pid, peaks))
            await reflect(client)
            end = await update(client)
            watch.cancel()
        return round(time.perf_counter() - begun, 1), str(end["status"]), peaks


async def _observe(daemon: RunningDaemon, work: Any) -> Peaks:
    peaks = Peaks()
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(_watch(daemon.pid, peaks))
        await work
        watch.cancel()
    return peaks


async def _watch(pid: int, peaks: Peaks) -> None:
    while True:
        await asyncio.to_thread(peaks.observe, pid)
        await asyncio.sleep(SAMPLE_INTERVAL_S)


def _family(pid: int) -> list[psutil.Process]:
    try:
        daemon = psutil.Process(pid)
        return [daemon, *daemon.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _name_of(process: psutil.Process, daemon_pid: int) -> str:
    """The module a child runs; the daemon by its role."""
    if process.pid == daemon_pid:
        return "daemon"
    words: list[str] = process.cmdline()
    return words[words.index("-m") + 1] if "-m" in words else str(process.name())


def _judge(
    start_s: float, phases: dict[str, Peaks], demo_s: float | None, status: str | None
) -> list[tuple[str, str, str, str]]:
    daemon_mb = max(peaks.rss_mb.get("daemon", float("inf")) for peaks in phases.values())
    together_mb = max(peaks.together_mb for peaks in phases.values())
    rows = [
        _row("second start to ready, s", start_s, MAX_START_S),
        _row("daemon, resident MiB", daemon_mb, MAX_DAEMON_MB),
        _row("everything together, MiB", together_mb, MAX_TOGETHER_MB),
    ]
    if demo_s is not None:
        rows.append(_row("first request to first update published, s", demo_s, MAX_DEMO_S))
        rows.append(("ok" if status == "published" else "NO", "the update", str(status), "published"))
    return rows


def _row(name: str, seen: float, limit: float) -> tuple[str, str, str, str]:
    return "ok" if seen <= limit else "NO", name, f"{seen:.1f}", f"{limit:.0f}"


def _print_phases(phases: dict[str, Peaks]) -> None:
    rows = [
        (phase, name, f"{peaks.rss_mb[name]:.0f}", f"{peaks.pss_mb[name]:.0f}")
        for phase, peaks in phases.items()
        for name in sorted(peaks.rss_mb)
    ]
    rows += [(phase, "together, at one moment", "", f"{peaks.together_mb:.0f}") for phase, peaks in phases.items()]
    print_table("Highest memory seen, MiB", ("while", "process", "resident", "proportional"), rows)


def _details(phases: dict[str, Peaks]) -> dict[str, Any]:
    return {
        phase: {
            "rss_mb": {name: round(value) for name, value in peaks.rss_mb.items()},
            "together_pss_mb": round(peaks.together_mb),
        }
        for phase, peaks in phases.items()
    }


if __name__ == "__main__":
    sys.exit(main())
