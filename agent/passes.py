"""Runs reflection passes and updates, one at a time, when the clock or a person says so.

The loop around a background pass is one of the places where any error is caught: a pass that fails is recorded as
failed, the first failure of a row and the recovery are logged, and the daemon goes on. This module does not know what a
pass does.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import structlog

from agent.clock import Alarm
from agent.footprint import give_back_memory
from memory.records import ReflectionPass, Update, new_id
from memory.states import PassStatus, UpdateStatus
from memory.store import Store

log = structlog.get_logger(__name__)

Report = Callable[[str, int, int], None]
"""Told of progress: the stage, how much is done, and of how much."""


class RunPass(Protocol):
    """A reflection pass or an update, bound to all it needs."""

    async def __call__(self, *, trigger: str, run_id: str, report: Report) -> None: ...


class Kind(StrEnum):
    REFLECT = "reflect"
    UPDATE = "update"


class UpdateRunningError(RuntimeError):
    """An update runs or waits to run; there is never more than one."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """A pass that runs or waits for its turn."""

    kind: Kind
    id: str
    trigger: str
    asked_at: datetime
    stage: str = "queued"
    done: int = 0
    total: int = 0

    def report(self, stage: str, done: int, total: int) -> None:
        self.stage, self.done, self.total = stage, done, total


class Passes:
    """The queue of passes and the one that runs."""

    def __init__(
        self,
        *,
        store: Store,
        runs: dict[Kind, RunPass],
        alarms: dict[Kind, Alarm],
        live_version: Callable[[], int],
        now: Callable[[], datetime],
    ) -> None:
        self.running: Progress | None = None
        self._store = store
        self._runs = runs
        self._alarms = alarms
        self._live_version = live_version
        self._now = now
        self._queue: deque[Progress] = deque()
        self._asked = asyncio.Event()
        self._failing: set[Kind] = set()

    def request_reflect(self, trigger: str) -> str:
        """The id of the pass that will run: of the one that waits already, where there is one."""
        waiting = [progress for progress in self._queue if progress.kind is Kind.REFLECT]
        return waiting[0].id if waiting else self._enqueue(Kind.REFLECT, new_id("pass"), trigger)

    def request_update(self, trigger: str) -> str:
        """The id of the update that will run. Raises UpdateRunningError."""
        for progress in (self.running, *self._queue):
            if progress is not None and progress.kind is Kind.UPDATE:
                raise UpdateRunningError(f"update {progress.id} is running")
        return self._enqueue(Kind.UPDATE, new_id("upd"), trigger)

    def find(self, run_id: str) -> Progress | None:
        """A pass that runs or waits."""
        return next((p for p in (self.running, *self._queue) if p is not None and p.id == run_id), None)

    async def run(self) -> None:
        """Run what is asked for, for ever, one after the other."""
        while True:
            while self._queue:
                self.running = self._queue.popleft()
                await self._run_one(self.running)
                self.running = None
            self._asked.clear()
            await self._asked.wait()

    async def follow_clock(self, kind: Kind) -> None:
        """Ask for a pass whenever its alarm rings, for ever."""
        while True:
            trigger = await self._alarms[kind].due()
            if kind is Kind.REFLECT:
                self.request_reflect(trigger)
            elif not any(p is not None and p.kind is Kind.UPDATE for p in (self.running, *self._queue)):
                self.request_update(trigger)

    async def end_interrupted(self) -> None:
        """At start-up: give an end to what a daemon that was killed left running."""
        reason = "the daemon stopped while this was running"
        for started in await self._store.judgements.passes(limit=100):
            if started.status is PassStatus.RUNNING:
                await self._fail_pass(started.id, started.trigger, reason)
        for update in await self._store.updates.list(limit=100):
            if update.status is UpdateStatus.RUNNING:
                await self._fail_update(update.id, update.trigger, reason)

    def _enqueue(self, kind: Kind, run_id: str, trigger: str) -> str:
        self._queue.append(Progress(kind=kind, id=run_id, trigger=trigger, asked_at=self._now()))
        self._asked.set()
        return run_id

    async def _run_one(self, progress: Progress) -> None:
        kind = progress.kind
        await remember_run(self._store, kind, now=self._now())
        self._alarms[kind].num_new = 0
        progress.report("starting", 0, 0)
        try:
            await self._runs[kind](trigger=progress.trigger, run_id=progress.id, report=progress.report)
        except asyncio.CancelledError:
            await self._fail(progress, "the daemon was stopped")
            raise
        except Exception as error:  # noqa: BLE001 - a pass that fails is a record, not the end of the daemon
            await self._record_failure(progress, error)
        else:
            if kind in self._failing:
                self._failing.discard(kind)
                log.info("pass works again", kind=kind.value, id=progress.id)
        give_back_memory()

    async def _record_failure(self, progress: Progress, error: Exception) -> None:
        if progress.kind not in self._failing:
            self._failing.add(progress.kind)
            log.error("pass failed", kind=progress.kind.value, id=progress.id, exc_info=error)
        await self._fail(progress, f"{type(error).__name__}: {error}")

    async def _fail(self, progress: Progress, reason: str) -> None:
        fail = self._fail_pass if progress.kind is Kind.REFLECT else self._fail_update
        await fail(progress.id, progress.trigger, reason)

    async def _fail_pass(self, pass_id: str, trigger: str, reason: str) -> None:
        """End a pass as failed, whether or not it came to writing its beginning."""
        started = await self._store.judgements.get_pass(pass_id)
        if started is None:
            started = ReflectionPass(id=pass_id, trigger=trigger, started_at=self._now())
            await self._store.judgements.begin_pass(started)
        if started.status is PassStatus.RUNNING:
            ended = replace(started, status=PassStatus.FAILED, reason=reason, ended_at=self._now())
            await self._store.judgements.end_pass(ended)

    async def _fail_update(self, update_id: str, trigger: str, reason: str) -> None:
        """End an update as failed, whether or not it came to writing its beginning."""
        started = await self._store.updates.get(update_id)
        if started is None:
            parent = self._live_version()
            started = Update(id=update_id, trigger=trigger, started_at=self._now(), parent_version=parent)
            await self._store.updates.begin(started)
        if started.status is UpdateStatus.RUNNING:
            ended = replace(started, status=UpdateStatus.FAILED, reason=reason, ended_at=self._now())
            await self._store.updates.end(ended)


async def remember_run(store: Store, kind: Kind, *, now: datetime) -> None:
    """When a kind of pass last ran, and after which interaction: what its schedule counts from."""
    await store.state.set(f"clock/{kind}/last_at", now.isoformat())
    newest = await store.interactions.newest_id()
    if newest is not None:
        await store.state.set(f"clock/{kind}/newest_id", newest)


async def recall_run(store: Store, kind: Kind) -> tuple[datetime | None, int]:
    """When a kind of pass last ran, and how many interactions are new since."""
    last_at = await store.state.get(f"clock/{kind}/last_at")
    newest = await store.state.get(f"clock/{kind}/newest_id")
    num_new = await store.interactions.count(after_id=newest)
    return datetime.fromisoformat(last_at) if last_at is not None else None, num_new
