"""The two models of a daemon, made ready before anything else: fetched and converted at the first start."""

import asyncio
import time
from dataclasses import dataclass

import structlog

from agent.config import model_cache_dir
from agent.sources import PreparedModel, Report, prepare
from agent.tables import Settings

log = structlog.get_logger(__name__)

_LOG_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    policy: PreparedModel
    embedder: PreparedModel


async def prepare_models(settings: Settings, *, report: Report | None = None) -> Models:
    """Blocks nothing. Raises SourceError."""
    cache_dir = model_cache_dir(settings)
    told = report or _log_progress()
    policy = await asyncio.to_thread(prepare, settings.policy.source, cache_dir, report=told)
    embedder = await asyncio.to_thread(prepare, settings.embedder.source, cache_dir, report=told)
    return Models(policy=policy, embedder=embedder)


def _log_progress() -> Report:
    """A line every few seconds."""
    last_s = 0.0

    def report(stage: str, done: int, total: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _LOG_EVERY_S:
            last_s = time.monotonic()
            log.info("preparing model", stage=stage, done=done, total=total)

    return report
