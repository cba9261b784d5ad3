"""A daemon of our own for as long as a block lasts: a real subprocess, started as an operator would."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

READY_TIMEOUT_S = 900.0
"""A first start fetches and converts the models."""
STOP_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.25

SERVE = (sys.executable, "-m", "agent.cli.main")
"""Before the words `serve --data-dir ...`; a benchmark may put something else here."""

QUIET_CLOCK = {
    f"JOURNEYMAN_{table}__{key}": value
    for table in ("REFLECTION", "UPDATER")
    for key, value in (("EVERY", ""), ("CRON", ""), ("AFTER_INTERACTIONS", "0"))
}
"""The demonstration says itself when to reflect and to update."""


class DaemonFailed(RuntimeError):
    """The daemon ended, or was not ready in time; the message carries the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDaemon:
    url: str
    pid: int
    data_dir: Path
    log_path: Path


@asynccontextmanager
async def running_daemon(
    data_dir: Path,
    *,
    settings: Mapping[str, str] = QUIET_CLOCK,
    command: Sequence[str] = SERVE,
    on_wait: Callable[[float], None] | None = None,
) -> AsyncIterator[RunningDaemon]:
    """Start a daemon on `data_dir`, wait until it is ready, and drain it at the end of the block."""
    log_path = _prepare(data_dir)
    with log_path.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            "serve",
            "--data-dir",
            str(data_dir),
            "--port",
            "0",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **settings},
        )
    try:
        url = await _wait_until_ready(process, data_dir, log_path, on_wait)
        yield RunningDaemon(url=url, pid=process.pid, data_dir=data_dir, log_path=log_path)
    finally:
        await _stop(process)


def _prepare(data_dir: Path) -> Path:
    """Make the directory, forget the address of a daemon that was killed, and give the path of the new one's log."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data_dir / "daemon.json").unlink(missing_ok=True)
    return data_dir / "serve.log"


async def _wait_until_ready(
    process: asyncio.subprocess.Process, data_dir: Path, log_path: Path, on_wait: Callable[[float], None] | None
) -> str:
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        while (waited := loop.time() - started) < READY_TIMEOUT_S:
            if process.returncode is not None:
                raise DaemonFailed(f"the daemon ended with {process.returncode}:\n{_tail(log_path)}")
            url = _url_of(data_dir)
            if url and await _is_ready(session, url):
                return url
            if on_wait is not None:
                on_wait(waited)
            await asyncio.sleep(POLL_INTERVAL_S)
    raise DaemonFailed(f"the daemon was not ready after {READY_TIMEOUT_S:.0f} s:\n{_tail(log_path)}")


def _url_of(data_dir: Path) -> str | None:
    """The URL in daemon.json, once it has been written completely."""
    path = data_dir / "daemon.json"
    if not path.exists():
        return None
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["url"])
    except json.JSONDecodeError:
        return None


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/readyz") as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _tail(path: Path, *, num_lines: int = 20) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-num_lines:])
