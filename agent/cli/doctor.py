"""`journeyman doctor`: what stands in the way of a daemon here, each with what to do about it."""

import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import psutil
import typer

from agent.cli.connection import Connection, connected
from agent.cli.display import print_json, print_table
from agent.cli.failures import CommandFailed, ExitCode
from agent.cli.options import DataDirOption, JsonOption, chosen_data_dir
from agent.config import ConfigError, load_settings, model_cache_dir
from agent.fsck import check_data_dir
from agent.tables import Settings

_GIB = 1024**3
_MIN_DISK_GIB = 2.0
_MIN_MEMORY_GIB = 3.0
"""What everything together may take while the starter model is trained."""
_LEAST_CHAT = {"model": "policy", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "store": False}

Mark = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    mark: Mark
    what: str
    seen: str


def doctor(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Examine machine, configuration, data directory and daemon."""
    found = list(examine(chosen_data_dir(data_dir)))
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        print_table("Examined", ("", "what", "seen"), [(one.mark, one.what, one.seen) for one in found], empty="")
    if any(one.mark == "error" for one in found):
        raise typer.Exit(ExitCode.ERROR)


def examine(data_dir: Path) -> Iterator[Examined]:
    """In the order in which a start would stumble over them."""
    try:
        settings = load_settings(data_dir)
    except ConfigError as problem:
        yield Examined(mark="error", what="configuration", seen=str(problem))
        settings = Settings()
    else:
        yield Examined(mark="ok", what="configuration", seen="can be read; see: journeyman config show --origin")
    yield _disk(data_dir)
    yield _memory()
    yield _models(settings)
    yield from _data(data_dir)
    yield from _daemon(data_dir, settings)


def _disk(data_dir: Path) -> Examined:
    place = next(path for path in (data_dir, *data_dir.parents) if path.exists())
    free = shutil.disk_usage(place).free / _GIB
    return Examined(
        mark="ok" if free >= _MIN_DISK_GIB else "error",
        what="disk",
        seen=f"{free:.1f} GiB free at {place}; {_MIN_DISK_GIB:.0f} GiB are wanted for models and an update",
    )


def _memory() -> Examined:
    free = psutil.virtual_memory().available / _GIB
    return Examined(
        mark="ok" if free >= _MIN_MEMORY_GIB else "warning",
        what="memory",
        seen=f"{free:.1f} GiB available; an update of the starter model takes up to {_MIN_MEMORY_GIB:.0f} GiB in all",
    )


def _models(settings: Settings) -> Examined:
    cache = model_cache_dir(settings)
    is_there = cache.is_dir() and any(cache.iterdir())
    seen = f"in {cache}" if is_there else f"not in {cache} yet: the first start fetches what is not a local file"
    return Examined(mark="ok" if is_there else "warning", what="models", seen=seen)


def _data(data_dir: Path) -> Iterator[Examined]:
    if not data_dir.exists():
        yield Examined(mark="warning", what="data directory", seen=f"{data_dir} is not there: the first start makes it")
        return
    found = check_data_dir(data_dir)
    for finding in found:
        mark: Mark = "error" if finding.is_error else "warning"
        yield Examined(mark=mark, what="data directory", seen=f"{finding.where} {finding.what}")
    if not found:
        yield Examined(mark="ok", what="data directory", seen=f"{data_dir} is whole")


def _daemon(data_dir: Path, settings: Settings) -> Iterator[Examined]:
    try:
        with connected(data_dir) as daemon:
            status = daemon.get("/admin/status")
            mark: Mark = "ok" if status["not_ready"] is None else "warning"
            yield Examined(mark=mark, what="daemon", seen=f"{status['url']}, {status['not_ready'] or 'ready'}")
            yield _asked("an answer", lambda: _answer(daemon))
    except CommandFailed as problem:
        if problem.code is not ExitCode.NOT_RUNNING:
            yield Examined(mark="error", what="daemon", seen=str(problem))
            return
        yield Examined(mark="warning", what="daemon", seen="none is running here")
        yield _port(settings)


def _asked(what: str, ask: Callable[[], str]) -> Examined:
    try:
        return Examined(mark="ok", what=what, seen=ask())
    except CommandFailed as problem:
        return Examined(mark="error", what=what, seen=str(problem))


def _answer(daemon: Connection) -> str:
    return f"one token from {daemon.post('/v1/chat/completions', _LEAST_CHAT)['model']}"


def _port(settings: Settings) -> Examined:
    host, port = settings.server.host, settings.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            seen = f"{host}:{port} cannot be listened on ({problem.strerror}); another: journeyman serve --port"
            return Examined(mark="error", what="address", seen=seen)
    return Examined(mark="ok", what="address", seen=f"{host}:{port} is free")
