"""The life of a composed daemon: start, serve, drain. It knows the order of things, not how any of them works.

Background work (children, passes, clock, index) is one task group, turns are another inside it: turns end before what
they need. Draining first refuses new chats, then stops learning, then lets open chats end.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from agent.api.app import build_app
from agent.api.context import Context, Phase
from agent.api.metrics import Metrics
from agent.children import Engine
from agent.data_dir import DataDir
from agent.footprint import give_back_memory, keep_small
from agent.generate import Generator
from agent.indexing import keep_indexed
from agent.keys import KeyRing
from agent.learning import Learning
from agent.listening import Listener, listening
from agent.notify import Notifier
from agent.passes import Passes
from agent.publishing import LivePolicy
from agent.reloading import Reloader
from agent.respond import Parts, Responder
from agent.schedules import Schedules
from agent.status import StatusReader
from agent.stopping import StopRequest
from agent.supervisor import Child, ChildRunner
from agent.tables import Settings
from memory.recall import Recall
from memory.records import Interaction
from memory.states import Purpose
from memory.store import Store
from memory.tokens import Tokenizer

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """The parts, and what becomes of them from start to stop."""

    settings: Settings
    home: DataDir
    store: Store
    tokenizer: Tokenizer
    policy: LivePolicy
    recall: Recall
    generator: Generator
    learning: Learning
    keys: KeyRing
    schedules: Schedules
    reloader: Reloader
    engine: Engine
    embedder: Child
    runner: ChildRunner
    now: Callable[[], datetime]
    metrics: Metrics = field(default_factory=Metrics)
    notifier: Notifier = field(default_factory=Notifier)
    _stored: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever interactions became durable."""

    async def run(self, stop: StopRequest, *, on_ready: Callable[[str], None] | None) -> None:
        """Until `stop` is asked for. Raises, in a group, what a part could not get over."""
        phase = Phase(is_engine_ready=lambda: self.engine.is_ready)
        passes = self._passes()
        await self.keys.load()
        self.keys.require_for(self.settings.server.host)
        await self.schedules.restore()
        await passes.end_interrupted()
        async with asyncio.TaskGroup() as background:
            to_the_end = [background.create_task(child.run()) for child in (self.engine, self.embedder)]
            to_the_end.append(background.create_task(self.notifier.keep_alive()))
            to_the_end.append(background.create_task(self.reloader.run()))
            async with asyncio.TaskGroup() as turns:
                responder = Responder(self._response_parts(), turns)
                learning = self._start_learning(background, passes, responder)
                context = self._context(phase, responder, passes)
                socket = self.home.sockets / "admin.sock"
                async with listening(build_app(context), self.settings.server, socket) as listener:
                    await self._greet_when_ready(phase, listener, on_ready)
                    await stop.wait()
                    await self._drain(phase, listener, responder, learning, stop)
            await self.schedules.clock.save()
            await self.recall.save()
            for task in to_the_end:
                task.cancel()

    def _passes(self) -> Passes:
        return Passes(
            store=self.store,
            runs=self.learning.runs,
            note_started=self.schedules.clock.note_started,
            max_duration_s=self.schedules.max_duration_s,
            live_version=lambda: self.policy.live.number,
            now=self.now,
        )

    def _start_learning(
        self, background: asyncio.TaskGroup, passes: Passes, responder: Responder
    ) -> list[asyncio.Task[None]]:
        """All that goes on beside serving and stops first."""
        return [
            background.create_task(passes.run(), name="passes"),
            background.create_task(self.schedules.clock.run(passes, idle_s=lambda: responder.idle_s), name="clock"),
            background.create_task(keep_indexed(self.recall, self.embedder, self._stored), name="index"),
            background.create_task(self.policy.unload_drained(), name="unload"),
            background.create_task(keep_small(), name="footprint"),
        ]

    def _response_parts(self) -> Parts:
        context_length = self.tokenizer.max_positions
        if not self.settings.engine.url:
            context_length = min(context_length, self.settings.engine.kv_tokens)
        return Parts(
            store=self.store,
            tokenizer=self.tokenizer,
            policy=self.policy,
            recall=self.recall,
            generator=self.generator,
            system_prompt=self.settings.agent.system_prompt,
            context_length=context_length,
            on_stored=self._note_stored,
            now=self.now,
        )

    def _note_stored(self, rows: Sequence[Interaction]) -> None:
        self.metrics.note_stored(rows)
        self._stored.set()
        self.keys.note_sampled(rows)
        num_live = sum(row.purpose is Purpose.LIVE for row in rows)
        self.schedules.clock.count_interactions(num_live)

    def _context(self, phase: Phase, responder: Responder, passes: Passes) -> Context:
        """What HTTP may reach."""
        status = StatusReader(
            phase=phase,
            store=self.store,
            policy=self.policy,
            passes=passes,
            responder=responder,
            schedules=self.schedules,
            children=[child for child in (self.engine, self.embedder) if isinstance(child, Child)],
            embedder=self.embedder,
            runner=self.runner,
            started_at=self.now(),
            now=self.now,
        )
        return Context(
            data_dir=self.home.path,
            server=self.settings.server,
            keys=self.keys,
            sampling_defaults=self.settings.policy,
            store=self.store,
            tokenizer=self.tokenizer,
            policy=self.policy,
            responder=responder,
            passes=passes,
            schedules=self.schedules,
            phase=phase,
            metrics=self.metrics,
            read_status=status.read,
            roll_back=self.learning.roll_back,
            now=self.now,
        )

    async def _greet_when_ready(self, phase: Phase, listener: Listener, on_ready: Callable[[str], None] | None) -> None:
        phase.url = listener.url
        self.home.announce(listener.url)
        await self.engine.wait_ready()
        phase.has_started = True
        give_back_memory()
        self.notifier.ready(f"serving {self.policy.live.name} at {listener.url}")
        log.info("ready", url=listener.url, live=self.policy.live.name)
        if on_ready is not None:
            on_ready(listener.url)

    async def _drain(
        self,
        phase: Phase,
        listener: Listener,
        responder: Responder,
        learning: list[asyncio.Task[None]],
        stop: StopRequest,
    ) -> None:
        """Open chats get their time; the end of it, or a second signal, cuts them short. All are stored."""
        log.info("draining", in_flight=responder.num_in_flight)
        phase.is_draining = True
        self.notifier.stopping()
        await listener.stop_accepting()
        for task in learning:
            task.cancel()
        await asyncio.wait(learning)
        async with asyncio.TaskGroup() as ending:
            cutting = ending.create_task(self._cut_short(responder, stop))
            await responder.idle()
            cutting.cancel()

    async def _cut_short(self, responder: Responder, stop: StopRequest) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.server.drain_timeout_s):
                await stop.wait_urgent()
        responder.abandon_all("the daemon is stopping")
