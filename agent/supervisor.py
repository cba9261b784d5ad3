"""Child processes: started, watched, restarted and stopped by the daemon.

`Child` keeps one long-lived child alive (engine, embedder); `ChildRunner` runs one-shot children to their end (the
heavy arithmetic of a pass, a training run). Children are spawned, never forked; they stay in the daemon's own Linux
session (across sessions autogroup scheduling makes niceness mean nothing) but in process groups of their own, so that
Ctrl-C in a terminal reaches the daemon alone and it can drain. This module does not know what its children do.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

import aiohttp
import structlog

import memory
from memory.child import PARENT_PIPE_FD, ChildFailed

log = structlog.get_logger(__name__)

_POLL_S = 0.1
"""Between health requests while a child starts."""
_HEALTH_INTERVAL_S = 5.0
_HUNG_AFTER_S = 60.0
"""Without one good health answer for this long, a running child is killed and restarted."""
_STOP_S = 1.0
"""From SIGTERM to SIGKILL. Children hold nothing that is not in the store or in a directory of its own."""
_MAX_BACKOFF_S = 30.0
_MAX_LOG_BYTES = 10 * 1024 * 1024
_MAX_LINE_BYTES = 1024 * 1024
"""Of one line of progress from a one-shot child."""
_SOURCE_ROOT = str(Path(memory.__file__).parent.parent)
"""Where our packages lie: first on the children's path, so that no folder of the working directory shadows them."""


class ChildState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    BACKOFF = "backoff"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What to run and how to know that it works."""

    name: str
    argv: tuple[str, ...]
    """A module and its arguments, for `python -m`."""
    threads: int
    niceness: int = 0
    socket_path: Path
    """Where it answers GET /health with 200 once it is usable."""
    start_timeout_s: float = 120.0
    must_start: bool = True
    """True: dying before it was ever ready ends the daemon, with the child's last words."""


class Child:
    """One long-lived child. `run` keeps it alive until cancelled; `wait_ready` waits for a usable one."""

    def __init__(
        self, spec: ChildSpec, logs_dir: Path, *, on_ready: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.spec = spec
        self.state = ChildState.STOPPED
        self.pid: int | None = None
        self.num_restarts = 0
        self._log_path = logs_dir / f"{spec.name}.log"
        self._on_ready = on_ready
        self._ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Return once the child is ready. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._ready.wait()

    async def run(self) -> None:
        """Start, watch, restart. Raises ChildFailed only when a child that must start never did."""
        was_ready = False
        backoff_s = 0.5
        while True:
            reason, ready_for_s = await self._run_once()
            was_ready = was_ready or ready_for_s is not None
            if self.spec.must_start and not was_ready:
                raise ChildFailed(f"the {self.spec.name} did not start: {reason}")
            lasted = ready_for_s is not None and ready_for_s > _HUNG_AFTER_S
            backoff_s = 0.5 if lasted else min(backoff_s * 2, _MAX_BACKOFF_S)
            self.state = ChildState.BACKOFF
            self.num_restarts += 1
            log.warning("child ended", child=self.spec.name, reason=reason, restart_in_s=backoff_s)
            await asyncio.sleep(backoff_s)

    async def _run_once(self) -> tuple[str, float | None]:
        """One life of the child: why it ended, and how long it had been ready (None: never was)."""
        self.state = ChildState.STARTING
        self.spec.socket_path.unlink(missing_ok=True)
        ready_at: float | None = None
        with _append_log(self._log_path) as log_file:
            spec = self.spec
            async with _spawn(spec.argv, spec.threads, spec.niceness, stdout=log_file, stderr=log_file) as process:
                self.pid = process.pid
                try:
                    if await self._becomes_ready(process):
                        ready_at = time.monotonic()
                        await self._watch(process)
                finally:
                    self._ready.clear()
                    self.state = ChildState.STOPPED
                    self.pid = None
        reason = f"{_describe_exit(process.returncode)}; {_last_line(self._log_path)}"
        return reason, None if ready_at is None else time.monotonic() - ready_at

    async def _becomes_ready(self, process: asyncio.subprocess.Process) -> bool:
        deadline = time.monotonic() + self.spec.start_timeout_s
        while process.returncode is None and time.monotonic() < deadline:
            if await is_healthy(self.spec.socket_path, timeout_s=5.0):
                if self._on_ready is not None:
                    await self._on_ready()
                self.state = ChildState.READY
                self._ready.set()
                log.info("child ready", child=self.spec.name, pid=process.pid)
                return True
            await asyncio.sleep(_POLL_S)
        return False

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Until it exits, or does not answer for so long that it counts as hung."""
        healthy_at = time.monotonic()
        while time.monotonic() - healthy_at < _HUNG_AFTER_S:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _HEALTH_INTERVAL_S)
                return
            if await is_healthy(self.spec.socket_path, timeout_s=_HUNG_AFTER_S / 3):
                healthy_at = time.monotonic()
        log.warning("child hung", child=self.spec.name, pid=process.pid)


class ChildRunner:
    """Runs one-shot children; implements memory.child.RunChild."""

    def __init__(self) -> None:
        self.running: dict[str, int] = {}
        """Module to process id, of what runs now."""

    async def __call__(
        self,
        module: str,
        workdir: Path,
        *,
        threads: int,
        niceness: int,
        timeout_s: float,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        stderr_path = workdir / "stderr.log"
        with stderr_path.open("wb") as stderr:
            pipe = asyncio.subprocess.PIPE
            async with _spawn((module, str(workdir)), threads, niceness, stdout=pipe, stderr=stderr) as process:
                self.running[module] = process.pid
                try:
                    async with asyncio.timeout(timeout_s):
                        await _read_lines(process, on_line)
                        code = await process.wait()
                except TimeoutError:
                    raise ChildFailed(f"{module} took longer than {timeout_s:.0f} s and was stopped") from None
                finally:
                    del self.running[module]
        if code != 0:
            raise ChildFailed(_last_line(stderr_path) or f"{module}: {_describe_exit(code)}")


async def is_healthy(socket_path: Path, *, timeout_s: float) -> bool:
    """Ask GET /health over a Unix socket: a real request, since a living pid says nothing."""
    connector = aiohttp.UnixConnector(path=str(socket_path))
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.get("http://localhost/health") as response,
        ):
            return response.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


@asynccontextmanager
async def _spawn(
    argv: tuple[str, ...], threads: int, niceness: int, *, stdout: IO[bytes] | int, stderr: IO[bytes]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running `python -m argv`; on leaving the block it is stopped, first politely."""
    with _parent_pipe() as read_end:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=_child_environment(threads, read_end),
            pass_fds=(read_end,),
            process_group=0,
            limit=_MAX_LINE_BYTES,
        )
        try:
            if niceness:
                with contextlib.suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, process.pid, niceness)
            yield process
        finally:
            await _stop(process)


@contextmanager
def _parent_pipe() -> Iterator[int]:
    """The read end, for the child. The write end stays here alone: when this process is gone, the pipe ends."""
    read_end, write_end = os.pipe()
    try:
        yield read_end
    finally:
        os.close(read_end)
        os.close(write_end)


def _child_environment(threads: int, parent_pipe: int) -> dict[str, str]:
    """Threads and wait policy must be there before torch is loaded: oversubscription costs a factor of 30."""
    path = [_SOURCE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(path),
        PARENT_PIPE_FD: str(parent_pipe),
    }


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _STOP_S)
            return


async def _read_lines(process: asyncio.subprocess.Process, on_line: Callable[[str], None] | None) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        if on_line is not None:
            on_line(line.decode("utf-8", "replace").rstrip("\n"))


@contextmanager
def _append_log(path: Path) -> Iterator[IO[bytes]]:
    """The child's log file; one older file is kept when it has grown large."""
    if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    with path.open("ab") as file:
        yield file


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "still running"
    return f"ended by signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last_line(path: Path) -> str:
    """The last line that is not empty, at most 500 characters of it."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8192))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:500] for line in reversed(lines) if line.strip()), "")
