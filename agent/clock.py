"""Asks for passes when they are due: what was said (agent/schedule.py), and how far each kind of pass has come.

Due times are ours, in the store. `every` counts real seconds since the last run, so that a step of the wall clock
neither hurries nor stops it; while the daemon is off the wall clock is all there is. Cron times are wall times and each
comes once: a clock that is set back does not repeat them. What falls due while a pass of its kind runs, in quiet hours,
during a pause, or with the daemon off runs once afterwards. This module does not know what a pass does.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from agent.schedule import Schedule
from memory.database import DatabaseError
from memory.store import Store

log = structlog.get_logger(__name__)

TICK_S = 1.0
_CATCH_UP_DELAY_S = 30.0
"""What was missed while the daemon was off waits until start-up is over."""
_STEP_BACK_S = 2.0
"""The wall clock falling behind real time by more than this between two ticks was set back."""
_PAUSED_KEY = "clock/paused"


class AskForPass(Protocol):
    """What the clock may do with passes."""

    def is_active(self, kind: str) -> bool:
        """One of this kind runs or waits for its turn."""

    def ask(self, kind: str, trigger: str) -> None: ...


def real_seconds() -> float:
    """Since some moment, sleep of the machine included, whatever the wall clock does."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(slots=True, kw_only=True)
class Timer:
    """One kind of pass and what has gathered since its last run."""

    kind: str
    schedule: Schedule
    elapsed_s: float = 0.0
    """Real seconds since the last run began, or since the first start."""
    cron_due_at: datetime | None = None
    last_at: datetime | None = None
    num_new: int = 0
    """Interactions since the last run."""
    num_negative: int = 0
    """Critical feedback since the last run."""
    reason: str | None = None
    """Why it is due, kept until it begins."""

    def find_reason(self, *, now: datetime, idle_s: float) -> str | None:
        said = self.schedule
        if said.every_s is not None and self.elapsed_s >= said.every_s:
            return "every"
        if self.cron_due_at is not None and now >= self.cron_due_at:
            return "cron"
        if said.after_interactions is not None and self.num_new >= said.after_interactions:
            return "after_interactions"
        if said.after_negative is not None and self.num_negative >= said.after_negative:
            return "after_negative"
        if said.idle_s is not None and self.num_new + self.num_negative > 0 and idle_s >= said.idle_s:
            return "when_idle"
        return None

    def next_time(self, now: datetime) -> datetime | None:
        """When it is due by time alone; not before the end of quiet hours."""
        said = self.schedule
        times = [] if self.cron_due_at is None else [max(now, self.cron_due_at)]
        if said.every_s is not None:
            times.append(now + timedelta(seconds=max(0.0, said.every_s - self.elapsed_s)))
        due_at = now if self.reason is not None else min(times, default=None)
        if due_at is not None and said.quiet is not None and said.quiet.covers(due_at):
            return said.quiet.end_after(due_at)
        return due_at

    def held_by(self, now: datetime) -> str | None:
        """What keeps it from running though it may be due."""
        if not self.schedule.enabled:
            return "disabled"
        if self.schedule.quiet is not None and self.schedule.quiet.covers(now):
            return "quiet hours"
        return None


@dataclass(slots=True, kw_only=True)
class Clock:
    """The timers, and the loop that looks at them."""

    store: Store
    now: Callable[[], datetime]
    real_s: Callable[[], float] = real_seconds
    save_every_s: float = 60.0
    is_paused: bool = False
    """Learning as a whole stands still."""
    timers: dict[str, Timer] = field(default_factory=dict)
    _seen: tuple[datetime, float] | None = None
    """Wall and real time of the last tick."""
    _saved_s: float = 0.0

    async def restore(self, schedules: Mapping[str, Schedule]) -> None:
        """Take up where the last daemon stopped; the time it was off counts."""
        now = self.now()
        self._seen, self._saved_s = (now, self.real_s()), self.real_s()
        self.is_paused = await self.store.state.get(_PAUSED_KEY) is not None
        for kind, schedule in schedules.items():
            timer = self.timers[kind] = Timer(kind=kind, schedule=schedule)
            await self._restore_counts(timer)
            saved = json.loads(await self.store.state.get(f"clock/{kind}/timer") or "{}")
            if saved:
                off_s = (now - datetime.fromisoformat(saved["saved_at"])).total_seconds()
                timer.elapsed_s = saved["elapsed_s"] + max(0.0, off_s)
                timer.reason = saved["reason"]
                missed = saved["cron_due_at"] if saved["cron"] == _cron_of(schedule) else None
                timer.cron_due_at = datetime.fromisoformat(missed) if missed else None
            elif timer.last_at is not None:
                timer.elapsed_s = max(0.0, (now - timer.last_at).total_seconds())
            self._keep_cron_near(timer, now)
            self._wait_for_start_up(timer, now)

    async def run(self, passes: AskForPass, *, idle_s: Callable[[], float]) -> None:
        """Look at the timers every second, for ever. `idle_s`: seconds since the last request ended, 0 during one."""
        is_failing = False
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.tick(passes, idle_s=idle_s())
            except DatabaseError:  # due times that cannot be saved must not end serving
                if not is_failing:
                    log.exception("due times cannot be saved")
                is_failing = True
            else:
                if is_failing:
                    log.info("due times can be saved again")
                is_failing = False

    async def tick(self, passes: AskForPass, *, idle_s: float) -> None:
        """Let time pass, and ask for what is due."""
        now, real_s = self.now(), self.real_s()
        assert self._seen is not None, "restore comes first"
        passed_s = real_s - self._seen[1]
        was_set_back = (now - self._seen[0]).total_seconds() < passed_s - _STEP_BACK_S
        self._seen = now, real_s
        for timer in self.timers.values():
            timer.elapsed_s += passed_s
            if was_set_back:
                self._keep_cron_near(timer, now)
            if passes.is_active(timer.kind):
                continue
            if timer.reason is None:
                timer.reason = timer.find_reason(now=now, idle_s=idle_s)
            if timer.reason is not None and not self.is_paused and timer.held_by(now) is None:
                passes.ask(timer.kind, timer.reason)
        if real_s - self._saved_s >= self.save_every_s:
            await self.save()

    async def note_started(self, kind: str) -> None:
        """A pass begins, whoever asked for it: what has gathered is its business from here on. Durable on return."""
        timer, now = self.timers[kind], self.now()
        timer.elapsed_s, timer.last_at, timer.reason = 0.0, now, None
        timer.num_new = timer.num_negative = 0
        if timer.cron_due_at is not None and timer.cron_due_at <= now:
            timer.cron_due_at = self._next_cron(timer, now)
        state = self.store.state
        await state.set(f"clock/{kind}/last_at", now.isoformat())
        for name, newest in (
            ("newest_id", await self.store.interactions.newest_id()),
            ("newest_feedback_id", await self.store.feedback.newest_id()),
        ):
            if newest is not None:
                await state.set(f"clock/{kind}/{name}", newest)
        await self.save()

    def count_interactions(self, count: int) -> None:
        for timer in self.timers.values():
            timer.num_new += count

    def count_negative(self) -> None:
        for timer in self.timers.values():
            timer.num_negative += 1

    async def change(self, kind: str, schedule: Schedule) -> None:
        """Another schedule from now on; what has gathered still counts, what was due by the old one does not."""
        timer = self.timers[kind]
        counts_anew = _cron_of(schedule) != _cron_of(timer.schedule) or not timer.schedule.enabled
        timer.schedule, timer.reason = schedule, None
        if counts_anew:
            timer.cron_due_at = self._next_cron(timer, self.now())
        await self.save()

    async def pause(self, *, wanted: bool) -> None:
        """Stop or go on with learning as a whole; durable on return."""
        self.is_paused = wanted
        if wanted:
            await self.store.state.set(_PAUSED_KEY, self.now().isoformat())
        else:
            await self.store.state.remove(_PAUSED_KEY)

    def next_due(self, kind: str) -> datetime | None:
        """By time alone; None while nothing can become due by time."""
        timer = self.timers[kind]
        return None if self.is_paused or not timer.schedule.enabled else timer.next_time(self.now())

    async def save(self) -> None:
        """How far the timers are; durable on return."""
        self._saved_s = self.real_s()
        for timer in self.timers.values():
            saved = {
                "elapsed_s": timer.elapsed_s,
                "saved_at": self.now().isoformat(),
                "cron": _cron_of(timer.schedule),
                "cron_due_at": timer.cron_due_at.isoformat() if timer.cron_due_at else None,
                "reason": timer.reason,
            }
            await self.store.state.set(f"clock/{timer.kind}/timer", json.dumps(saved))

    async def _restore_counts(self, timer: Timer) -> None:
        state, prefix = self.store.state, f"clock/{timer.kind}"
        last_at = await state.get(f"{prefix}/last_at")
        timer.last_at = datetime.fromisoformat(last_at) if last_at is not None else None
        timer.num_new = await self.store.interactions.count(after_id=await state.get(f"{prefix}/newest_id"))
        newest = await state.get(f"{prefix}/newest_feedback_id")
        timer.num_negative = await self.store.feedback.count_negative(after_id=newest)

    def _wait_for_start_up(self, timer: Timer, now: datetime) -> None:
        """What is overdue at the start, and only that, comes a little later."""
        every_s = timer.schedule.every_s
        if every_s is not None and timer.elapsed_s >= every_s:
            timer.elapsed_s = every_s - min(_CATCH_UP_DELAY_S, every_s)
        if timer.cron_due_at is not None and timer.cron_due_at <= now:
            timer.cron_due_at = now + timedelta(seconds=_CATCH_UP_DELAY_S)

    def _keep_cron_near(self, timer: Timer, now: datetime) -> None:
        """The due time stays unless it is none, or further off than two periods: then the clock was far ahead once."""
        following = self._next_cron(timer, now)
        second = timer.schedule.cron.next_after(following) if timer.schedule.cron and following else None
        is_far = timer.cron_due_at is not None and second is not None and timer.cron_due_at > second
        if timer.cron_due_at is None or is_far:
            timer.cron_due_at = following

    def _next_cron(self, timer: Timer, now: datetime) -> datetime | None:
        cron = timer.schedule.cron
        return None if cron is None else cron.next_after(now)


def _cron_of(schedule: Schedule) -> str | None:
    return None if schedule.cron is None else f"{schedule.cron.text} {schedule.cron.zone.key}"
