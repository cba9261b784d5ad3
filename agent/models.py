"""The two models of a daemon, made ready before anything else: fetched and converted at the first start."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from agent.config import model_cache_dir
from agent.sources import PreparedModel, Report, prepare
from agent.tables import Settings

log = structlog.get_logger(__name__)

T = TypeVar("T")

_LOG_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    policy: PreparedModel
    embedder: PreparedModel


async def prepare_models(settings: Settings, *, report: Report | None = None) -> Models:
    """Blocks nothing. Raises SourceError."""
    cache_dir = model_cache_dir(settings)
    told = report or _log_progress()
    policy = await in_daemon_thread(lambda: prepare(settings.policy.source, cache_dir, report=told))
    embedder = await in_daemon_thread(lambda: prepare(settings.embedder.source, cache_dir, report=told))
    return Models(policy=policy, embedder=embedder)


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Like asyncio.to_thread, but the process can end meanwhile: nobody joins a download at Ctrl-C."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - carried over to the loop, where it is raised
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    threading.Thread(target=run, name="prepare-model", daemon=True).start()
    return await future


def _log_progress() -> Report:
    """A line every few seconds."""
    last_s = 0.0

    def report(stage: str, done: int, total: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _LOG_EVERY_S:
            last_s = time.monotonic()
            log.info("preparing model", stage=stage, done=done, total=total)

    return report
