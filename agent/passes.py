"""Runs reflection passes and updates, one at a time, when the clock or a person says so.

The loop around a background pass is one of the places where any error is caught: a pass that fails is recorded as
failed, the first failure of a row and the recovery are logged, and the daemon goes on. This module does not know what a
pass does.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import structlog

from agent.footprint import give_back_memory
from memory.database import DatabaseError
from memory.records import ReflectionPass, Update, new_id
from memory.states import PassStatus, UpdateStatus
from memory.store import Store

log = structlog.get_logger(__name__)

PUBLISH = "publish"
"""The stage of an update that nothing may interrupt."""

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


class EndedEarlyError(RuntimeError):
    """The pass was ended from outside: by an operator, or because it took longer than its schedule allows."""


class PublishingError(RuntimeError):
    """A version is being published: half of that would be worse than any end."""


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
        note_started: Callable[[str], Awaitable[None]],
        max_duration_s: Callable[[str], float | None],
        live_version: Callable[[], int],
        now: Callable[[], datetime],
    ) -> None:
        """`note_started`: told of each pass that begins, so that its schedule counts anew."""
        self.running: Progress | None = None
        self._store = store
        self._runs = runs
        self._note_started = note_started
        self._max_duration_s = max_duration_s
        self._live_version = live_version
        self._now = now
        self._queue: deque[Progress] = deque()
        self._asked = asyncio.Event()
        self._failing: set[Kind] = set()
        self._task: asyncio.Task[None] | None = None

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

    def is_active(self, kind: str) -> bool:
        """One of this kind runs or waits for its turn."""
        return any(progress is not None and progress.kind == kind for progress in (self.running, *self._queue))

    def ask(self, kind: str, trigger: str) -> None:
        """What the clock calls, for a kind that is not active."""
        if kind == Kind.REFLECT:
            self.request_reflect(trigger)
        else:
            self.request_update(trigger)

    def abort(self, run_id: str) -> bool:
        """End the pass that runs, as failed, or take one that waits out of the queue; False where there is none.

        Raises PublishingError: what is being published has to come to its end.
        """
        waiting = next((progress for progress in self._queue if progress.id == run_id), None)
        if waiting is not None:
            self._queue.remove(waiting)
            return True
        if self.running is None or self.running.id != run_id or self._task is None:
            return False
        if self.running.stage == PUBLISH:
            raise PublishingError(f"{run_id} is being published, which takes a few seconds")
        self._task.cancel()
        return True

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
        progress.report("starting", 0, 0)
        try:
            await self._note_started(kind)
            await self._run_bounded(progress)
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

    async def _run_bounded(self, progress: Progress) -> None:
        """In a task of its own, so that it can be ended without ending the loop around it."""
        limit_s = self._max_duration_s(progress.kind)
        run = self._runs[progress.kind](trigger=progress.trigger, run_id=progress.id, report=progress.report)
        self._task = asyncio.create_task(run, name=progress.id)
        try:
            done, _ = await asyncio.wait([self._task], timeout=limit_s)
            if not done and progress.stage == PUBLISH:
                await asyncio.wait([self._task])
            elif not done:
                raise EndedEarlyError(f"it took longer than {limit_s:.0f} s (max_duration of its schedule)")
            if self._task.cancelled():
                raise EndedEarlyError("an operator ended it")
            self._task.result()
        finally:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _record_failure(self, progress: Progress, error: Exception) -> None:
        if isinstance(error, EndedEarlyError):
            log.warning("pass ended early", kind=progress.kind.value, id=progress.id, reason=str(error))
            await self._fail(progress, str(error))
            return
        if progress.kind not in self._failing:
            self._failing.add(progress.kind)
            log.error("pass failed", kind=progress.kind.value, id=progress.id, exc_info=error)
        await self._fail(progress, f"{type(error).__name__}: {error}")

    async def _fail(self, progress: Progress, reason: str) -> None:
        fail = self._fail_pass if progress.kind is Kind.REFLECT else self._fail_update
        try:
            await fail(progress.id, progress.trigger, reason)
        except DatabaseError:  # the next start gives it its end (`end_interrupted`)
            log.exception("end of a pass cannot be saved", kind=progress.kind.value, id=progress.id)

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
            for version in await self._store.updates.versions():
                if version.update_id == update_id:  # it came that far before it was stopped
                    ended = replace(ended, status=UpdateStatus.PUBLISHED, published_version=version.number)
            await self._store.updates.end(ended)
