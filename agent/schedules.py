"""The schedules in force: the configuration's, with what an operator changed while the daemon ran.

A change is kept in the store and outlives a restart; a key that is reset follows the configuration again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from pydantic import ValidationError

from agent.clock import Clock
from agent.schedule import Schedule, ScheduleError
from memory.store import Store
from reflection.settings import ScheduleSettings

log = structlog.get_logger(__name__)

Json = dict[str, object]
KEYS = tuple(ScheduleSettings.model_fields)
_STATE_KEY = "schedule/changes"


@dataclass(slots=True, kw_only=True)
class Schedules:
    """Reads and changes when passes are due."""

    configured: Mapping[str, ScheduleSettings]
    """By kind of pass."""
    clock: Clock
    store: Store
    _changes: dict[str, Json] = field(default_factory=dict)

    async def restore(self) -> None:
        """Before the clock runs. A saved change that means nothing any more is dropped, and said so."""
        saved = json.loads(await self.store.state.get(_STATE_KEY) or "{}")
        schedules = {}
        for kind in self.configured:
            self._changes[kind] = saved.get(kind, {})
            try:
                schedules[kind] = Schedule.read(self._with(kind, self._changes[kind]))
            except (ScheduleError, ValidationError) as problem:
                log.warning("saved schedule dropped", kind=kind, reason=str(problem), changes=self._changes[kind])
                self._changes[kind] = {}
                schedules[kind] = Schedule.read(self.in_force(kind))
        await self.clock.restore(schedules)

    def in_force(self, kind: str) -> ScheduleSettings:
        return self._with(kind, self._changes.get(kind, {}))

    async def change(self, kind: str, changes: Mapping[str, object], *, reset: Sequence[str] = ()) -> None:
        """Durable on return; a change that means nothing changes nothing. Raises ScheduleError, ValidationError."""
        kept = {key: value for key, value in self._changes[kind].items() if key not in reset}
        wanted = {**kept, **changes}
        schedule = Schedule.read(self._with(kind, wanted))
        await self.store.state.set(_STATE_KEY, json.dumps({**self._changes, kind: wanted}))
        self._changes[kind] = wanted
        await self.clock.change(kind, schedule)
        log.info("schedule changed", kind=kind, **wanted)

    async def reconfigure(self, configured: Mapping[str, ScheduleSettings]) -> None:
        """The configuration says something else now; what an operator changed by hand stays."""
        self.configured = configured
        for kind in configured:
            schedule = Schedule.read(self.in_force(kind))
            if schedule != self.clock.timers[kind].schedule:
                await self.clock.change(kind, schedule)

    def max_duration_s(self, kind: str) -> float | None:
        return self.clock.timers[kind].schedule.max_duration_s

    def show(self) -> Json:
        return {"paused": self.clock.is_paused, "data": [self._show(kind) for kind in self.configured]}

    def _show(self, kind: str) -> Json:
        timer, now = self.clock.timers[kind], self.clock.now()
        return {
            "kind": kind,
            **self.in_force(kind).model_dump(),
            "changed": sorted(self._changes[kind]),
            "last_at": _iso(timer.last_at),
            "next_due_at": _iso(self.clock.next_due(kind)),
            "due_because": timer.reason,
            "held_by": "pause" if self.clock.is_paused else timer.held_by(now),
            "new_interactions": timer.num_new,
            "new_negative": timer.num_negative,
        }

    def _with(self, kind: str, changes: Mapping[str, object]) -> ScheduleSettings:
        configured = {key: getattr(self.configured[kind], key) for key in KEYS}
        return ScheduleSettings.model_validate({**configured, **changes})


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
