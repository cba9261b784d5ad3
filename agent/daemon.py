"""The daemon, from an empty data directory to SIGTERM: the one place where the parts are put together.

    hold the data directory -> models -> store -> policy -> learning -> children, clock, HTTP -> ready -> drain

What is composed here lives in agent/lifetime.py. This process never imports torch: tensors live in the children
(engine, embedder, reflect worker, trainer).
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent.children import EMBEDDER_SOCKET, ENGINE_SOCKET, embedder_of, engine_of
from agent.clock import Clock
from agent.data_dir import DataDir, hold_data_dir
from agent.footprint import limit_arenas
from agent.generate import Generator
from agent.inference.client import EngineClient
from agent.keys import KeyRing
from agent.learning import bind_learning
from agent.lifetime import Daemon
from agent.logs import configure_logs
from agent.models import Models, prepare_models
from agent.passes import Kind
from agent.publishing import LivePolicy, find_live
from agent.reloading import Reloader
from agent.schedules import Schedules
from agent.stopping import only_cause, stop_signals
from agent.supervisor import ChildRunner
from agent.tables import Settings
from memory.embedder import EmbedderClient
from memory.index import VectorIndex
from memory.recall import Recall
from memory.records import utc_now
from memory.store import Store, open_store
from memory.tokens import Tokenizer
from reflection.settings import ScheduleSettings

log = structlog.get_logger(__name__)


async def serve(
    settings: Settings,
    data_dir: Path,
    *,
    read_again: Callable[[], Settings],
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT; `read_again` is asked at SIGHUP.

    Raises DataDirInUseError, SourceError, DatabaseError, AddressTakenError or ChildFailed, each with one line to show.
    """
    configure_logs(settings.agent.log_level)
    limit_arenas()
    with hold_data_dir(data_dir) as home:
        models = await prepare_models(settings)
        async with _opened(settings, home) as opened:
            daemon = await _compose(settings, home, models, opened, read_again)
            try:
                with stop_signals() as stop:
                    await daemon.run(stop, on_ready=on_ready)
            except BaseExceptionGroup as group:
                raise only_cause(group) from None
    log.info("stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What has to be closed again."""

    store: Store
    engine: EngineClient
    embedder: EmbedderClient


@asynccontextmanager
async def _opened(settings: Settings, home: DataDir) -> AsyncIterator[_Opened]:
    engine = (
        EngineClient(settings.engine.url)
        if settings.engine.url
        else EngineClient(socket_path=str(home.sockets / ENGINE_SOCKET))
    )
    async with open_store(home.path) as store, engine, EmbedderClient(home.sockets / EMBEDDER_SOCKET) as embedder:
        yield _Opened(store=store, engine=engine, embedder=embedder)


async def _compose(
    settings: Settings, home: DataDir, models: Models, opened: _Opened, read_again: Callable[[], Settings]
) -> Daemon:
    """Every part, given what it needs. Nothing runs yet."""
    store, tokenizer = opened.store, Tokenizer.load(models.policy.directory)
    live = await find_live(store, models.policy.fingerprint, now=utc_now())
    policy = LivePolicy(store=store, engine=opened.engine, data_dir=home.path, live=live)
    recall = Recall(
        store,
        VectorIndex(),
        embedder=opened.embedder,
        tokenizer=tokenizer,
        settings=settings.memory,
        snapshot=home.index / "context.faiss",
    )
    runner = ChildRunner()
    embedder = embedder_of(settings, home, models)
    learning = bind_learning(
        settings=settings,
        home=home,
        models=models,
        store=store,
        engine=opened.engine,
        embedder=opened.embedder,
        tokenizer=tokenizer,
        policy=policy,
        run_child=runner,
        wait_embedder=embedder.wait_ready,
        now=utc_now,
    )
    schedules = _schedules(settings, store)
    engine = engine_of(settings, home, models, client=opened.engine, on_ready=policy.restore)
    return Daemon(
        settings=settings,
        home=home,
        store=store,
        tokenizer=tokenizer,
        policy=policy,
        recall=recall,
        generator=Generator(engine=opened.engine, tokenizer=tokenizer, wait_ready=engine.wait_ready),
        learning=learning,
        keys=KeyRing(store, now=utc_now),
        schedules=schedules,
        reloader=Reloader(settings, read=read_again, schedules=schedules),
        engine=engine,
        embedder=embedder,
        runner=runner,
        now=utc_now,
    )


def _schedules(settings: Settings, store: Store) -> Schedules:
    """When each kind of pass runs, as [reflection] and [updater] say."""
    configured: dict[str, ScheduleSettings] = {Kind.REFLECT: settings.reflection, Kind.UPDATE: settings.updater}
    return Schedules(configured=configured, clock=Clock(store=store, now=utc_now), store=store)
