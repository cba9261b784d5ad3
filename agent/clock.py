"""Says when a pass is due: every so often, at cron times, after so many interactions, or because someone asks.

APScheduler is a clock here and nothing else: the whole body of a job sets an event, and the pass runs in the task
group of the daemon. (APScheduler logs and drops what a job raises, and cancels running jobs at shutdown.) `every`
counts from the last run, which the store remembers: a daemon that was off catches up once. This module does not know
what a pass does.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_CATCH_UP_DELAY = timedelta(seconds=30)
"""A pass missed while the daemon was off waits until start-up is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When one kind of pass is due; each part may be absent."""

    every_s: float | None = None
    cron: str | None = None
    """Five fields, UTC; weekdays by name or by number as people count them (0 and 7 are Sunday)."""
    after_interactions: int | None = None

    @classmethod
    def parse(cls, *, every: str, cron: str, after_interactions: int) -> Self:
        """From the configuration's spelling, where an empty text and 0 mean off. Raises ValueError."""
        if cron:
            CronTrigger.from_crontab(name_weekdays(cron))
        return cls(
            every_s=parse_duration(every) if every else None,
            cron=cron or None,
            after_interactions=after_interactions or None,
        )


class Alarm:
    """One kind of pass and its reasons to run."""

    def __init__(self, name: str, schedule: Schedule) -> None:
        self.name = name
        self.schedule = schedule
        self.num_new = 0
        """Interactions since the last run."""
        self._event = asyncio.Event()
        self._reason = ""

    @property
    def is_due(self) -> bool:
        return self._event.is_set()

    def ring(self, reason: str) -> None:
        """Make the pass due. The first reason is kept until it is taken."""
        if not self._event.is_set():
            self._reason = reason
        self._event.set()

    def count_interactions(self, count: int) -> None:
        self.num_new += count
        threshold = self.schedule.after_interactions
        if threshold is not None and self.num_new >= threshold:
            self.ring("after_interactions")

    async def due(self) -> str:
        """Wait until the pass is due; returns why. Taking it starts the count of interactions anew."""
        await self._event.wait()
        self._event.clear()
        self.num_new = 0
        return self._reason


class Clock:
    """Rings alarms at their times. Use as a context manager around the life of the daemon."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._scheduler = AsyncIOScheduler(
            timezone=UTC, job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )

    def add(self, alarm: Alarm, *, last_run_at: datetime | None) -> None:
        schedule = alarm.schedule
        if schedule.every_s is not None:
            trigger = IntervalTrigger(seconds=max(1, round(schedule.every_s)), timezone=UTC)
            first = first_due(schedule.every_s, last_run_at=last_run_at, now=self._now())
            self._schedule(alarm, "every", trigger, next_run_time=first)
        if schedule.cron is not None:
            trigger = CronTrigger.from_crontab(
                name_weekdays(schedule.cron), timezone=UTC
            )  # no hour is skipped or comes twice
            self._schedule(alarm, "cron", trigger)

    def next_due(self, alarm: Alarm) -> datetime | None:
        jobs = [self._scheduler.get_job(f"{alarm.name}/{reason}") for reason in ("every", "cron")]
        times = [job.next_run_time for job in jobs if job is not None and job.next_run_time is not None]
        return min(times, default=None)

    def __enter__(self) -> Self:
        self._scheduler.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._scheduler.shutdown(wait=False)

    def _schedule(self, alarm: Alarm, reason: str, trigger: object, **options: datetime) -> None:
        async def ring() -> None:  # a coroutine, so that it runs on the loop and not in a pool thread
            alarm.ring(reason)

        self._scheduler.add_job(ring, trigger, id=f"{alarm.name}/{reason}", replace_existing=True, **options)


def parse_duration(text: str) -> float:
    """Seconds in a text such as 90s, 30m, 6h or 1.5d."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text.strip())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"expected a duration such as 90s, 30m, 6h or 2d, got {text!r}")
    return float(match[1]) * _SECONDS[match[2]]


def first_due(every_s: float, *, last_run_at: datetime | None, now: datetime) -> datetime:
    """A full period after the last run (or after now, at the first start); soon, where that is already over."""
    period = timedelta(seconds=every_s)
    if last_run_at is None:
        return now + period
    return max(last_run_at + period, now + min(_CATCH_UP_DELAY, period))


def name_weekdays(cron: str) -> str:
    """Write the weekday field in names: APScheduler 3 counts Monday as 0, crontab and people count Sunday as 0."""
    fields = cron.split()
    if len(fields) != 5:
        raise ValueError(f"cron needs five fields (minute hour day month weekday), got {cron!r}")
    weekday = ",".join(_name_weekday_part(part) for part in fields[4].split(","))
    return " ".join([*fields[:4], weekday])


def _name_weekday_part(part: str) -> str:
    """One item of the list: `*`, `*/2`, a day, or a range with an optional step, written out as names."""
    match = re.fullmatch(r"([0-7])(?:-([0-7]))?(?:/([1-9]))?", part)
    if match is None:
        return part
    first, last, step = match.groups()
    end = int(last) if last is not None else 6 if step is not None else int(first)
    if end < int(first):
        raise ValueError(f"weekday range {part!r} runs backwards")
    days = range(int(first), end + 1, int(step or 1))
    return ",".join(_WEEKDAYS[day % 7] for day in days)
