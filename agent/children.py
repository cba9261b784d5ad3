"""The long-lived children of a daemon: what to run for engine and embedder, and with how much of the machine."""

import os
from collections.abc import Awaitable, Callable, Mapping

from agent.data_dir import DataDir
from agent.inference.client import EngineClient
from agent.models import Models
from agent.remote_engine import RemoteEngine
from agent.supervisor import Child, ChildSpec
from agent.tables import Settings

ENGINE_SOCKET = "engine.sock"
EMBEDDER_SOCKET = "embedder.sock"
_ENGINE_START_S = 600.0
"""A large model on a slow disk."""

Engine = Child | RemoteEngine


def engine_of(
    settings: Settings, home: DataDir, models: Models, *, client: EngineClient, on_ready: Callable[[], Awaitable[None]]
) -> Engine:
    """The engine built in, as a child; or the one behind a URL, only watched."""
    if settings.engine.url:
        return RemoteEngine(client.health, on_ready=on_ready)
    socket_path = home.sockets / ENGINE_SOCKET
    options = {
        "--model-dir": models.policy.directory,
        "--socket": socket_path,
        "--max-batch": settings.engine.max_batch,
        "--kv-tokens": settings.engine.kv_tokens,
        "--base-fingerprint": models.policy.fingerprint,
    }
    spec = ChildSpec(
        name="engine",
        argv=("agent.inference.server", *_as_arguments(options)),
        threads=settings.engine.threads or num_cores(),
        socket_path=socket_path,
        start_timeout_s=_ENGINE_START_S,
    )
    return Child(spec, home.logs, on_ready=on_ready)


def embedder_of(settings: Settings, home: DataDir, models: Models) -> Child:
    """Not needed to serve: while it is away, recall goes by words alone. It lowers its own priority."""
    socket_path = home.sockets / EMBEDDER_SOCKET
    options = {"--model-dir": models.embedder.directory, "--socket": socket_path}
    spec = ChildSpec(
        name="embedder",
        argv=("memory.embedder_server", *_as_arguments(options)),
        threads=settings.embedder.threads,
        socket_path=socket_path,
        must_start=False,
    )
    return Child(spec, home.logs)


def num_cores() -> int:
    """That this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _as_arguments(options: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(str(part) for option in options.items() for part in option)
