"""When one kind of pass is due, as the operator wrote it. Pure: moments in, moments out.

APScheduler's cron arithmetic is used, its scheduler is not: it counts weekdays from Monday, stops when the wall clock
steps back (both measured on 3.11.3), and fires a local time twice in the hour that autumn repeats.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Self, TypeVar
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from reflection.settings import ScheduleSettings

T = TypeVar("T")

_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_DURATION_S = 10 * 365 * 86400
_LONGEST_GAP = timedelta(hours=3)
"""Longer than any daylight saving change."""
_INSTANT = timedelta(microseconds=1)
_HORIZON = timedelta(days=8 * 366)
"""A cron that does not fire in so long (29 February comes at least every 8 years) never does."""


class ScheduleError(ValueError):
    """A schedule that means nothing; the message begins with the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Cron times in a time zone.

    With hours named, a local time that spring skips fires once, as much later as the clocks were moved, and one that
    autumn repeats fires the first time only. With hours left open (`*`, `*/2`), it follows real time.
    """

    text: str
    zone: ZoneInfo

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after `moment`, in UTC; None where there is none for years."""
        if self.text.split()[1].startswith("*"):
            return self._next_in_real_time(moment)
        local = moment.astimezone(self.zone).replace(tzinfo=None) - _LONGEST_GAP
        while True:
            found = self._next_local(local)
            if found is None:
                return None
            instant = found.replace(tzinfo=self.zone).astimezone(UTC)  # fold 0: the first of two, past a gap
            if instant > moment:
                return instant
            local = found

    def _next_in_real_time(self, moment: datetime) -> datetime | None:
        """Local fields under the offset of the moment; under the next offset from where that begins."""
        offset = moment.astimezone(self.zone).utcoffset() or timedelta()
        found = self._next_local((moment + offset).astimezone(UTC).replace(tzinfo=None))
        if found is None:
            return None
        instant = found.replace(tzinfo=UTC) - offset
        change = self._offset_change(moment, instant)
        if change is None:
            return instant
        new_offset = change.astimezone(self.zone).utcoffset() or timedelta()
        found = self._next_local((change + new_offset).replace(tzinfo=None) - _INSTANT)
        return None if found is None else found.replace(tzinfo=UTC) - new_offset

    def _offset_change(self, start: datetime, end: datetime) -> datetime | None:
        """The second in (start, end] from which another offset holds, if the offsets at the two differ."""

        def offset_at(moment: datetime) -> timedelta | None:
            return moment.astimezone(self.zone).utcoffset()

        if offset_at(start) == offset_at(end):
            return None
        low, high = int(start.timestamp()), int(end.timestamp())
        while high - low > 1:
            middle = (low + high) // 2
            if offset_at(datetime.fromtimestamp(middle, UTC)) == offset_at(start):
                low = middle
            else:
                high = middle
        return datetime.fromtimestamp(high, UTC)

    def _next_local(self, local: datetime) -> datetime | None:
        """The next match of the five fields after a local time without a zone."""
        trigger = CronTrigger.from_crontab(name_weekdays(self.text), timezone=UTC)
        trigger.end_date = local.replace(tzinfo=UTC) + _HORIZON
        found: datetime | None = trigger.get_next_fire_time(None, local.replace(tzinfo=UTC) + _INSTANT)
        return None if found is None else found.replace(tzinfo=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """Hours of the day, local time, in which nothing begins; they may run past midnight."""

    start: time
    end: time
    zone: ZoneInfo

    def covers(self, moment: datetime) -> bool:
        local = moment.astimezone(self.zone).time()
        if self.start < self.end:
            return self.start <= local < self.end
        return local >= self.start or local < self.end

    def end_after(self, moment: datetime) -> datetime:
        """When the quiet hours that cover `moment` are over."""
        local = moment.astimezone(self.zone)
        day = local.date() if local.time() < self.end else local.date() + timedelta(days=1)
        return datetime.combine(day, self.end, self.zone).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When one kind of pass is due; each part may be absent."""

    enabled: bool = True
    every_s: float | None = None
    cron: Cron | None = None
    after_interactions: int | None = None
    after_negative: int | None = None
    idle_s: float | None = None
    quiet: QuietHours | None = None
    max_duration_s: float | None = None

    @classmethod
    def read(cls, settings: ScheduleSettings) -> Self:
        """From the operator's spelling, where an empty text and 0 mean off. Raises ScheduleError."""
        zone = _named("timezone", settings.timezone, _read_zone)
        return cls(
            enabled=settings.enabled,
            every_s=_named("every", settings.every, parse_duration) if settings.every else None,
            cron=_named("cron", settings.cron, lambda text: _read_cron(text, zone)) if settings.cron else None,
            after_interactions=settings.after_interactions or None,
            after_negative=settings.after_negative or None,
            idle_s=_named("when_idle", settings.when_idle, parse_duration) if settings.when_idle else None,
            quiet=_named("quiet_hours", settings.quiet_hours, lambda text: _read_quiet_hours(text, zone))
            if settings.quiet_hours
            else None,
            max_duration_s=_named("max_duration", settings.max_duration, parse_duration)
            if settings.max_duration
            else None,
        )


def parse_duration(text: str) -> float:
    """Seconds in a text such as 90s, 30m, 6h or 1.5d. Raises ValueError."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([smhd])", text.strip(), re.ASCII)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _MAX_DURATION_S:
        raise ValueError(f"expected a duration such as 90s, 30m, 6h or 2d, up to ten years, got {text!r}")
    return seconds


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


def _named(key: str, text: str, read: Callable[[str], T]) -> T:
    try:
        return read(text)
    except (ValueError, KeyError, OSError) as problem:  # zoneinfo raises any of them, by the name it is given
        raise ScheduleError(f"{key}: {problem.args[0] if problem.args else problem}") from problem


def _read_zone(text: str) -> ZoneInfo:
    try:
        return ZoneInfo(text)
    except (ValueError, KeyError, OSError):
        raise ValueError(f"there is no time zone {text!r}; expected a name such as UTC or Europe/Berlin") from None


def _read_cron(text: str, zone: ZoneInfo) -> Cron:
    CronTrigger.from_crontab(name_weekdays(text), timezone=UTC)
    cron = Cron(text=text, zone=zone)
    if cron.next_after(datetime(2024, 1, 1, tzinfo=UTC)) is None:
        raise ValueError(f"{text!r} never comes")
    return cron


def _read_quiet_hours(text: str, zone: ZoneInfo) -> QuietHours:
    hour_and_minute = r"([01]\d|2[0-3]):([0-5]\d)"
    match = re.fullmatch(rf"{hour_and_minute}\s*-\s*{hour_and_minute}", text.strip(), re.ASCII)
    parts = [int(part) for part in match.groups()] if match else [0, 0, 0, 0]
    start, end = time(parts[0], parts[1]), time(parts[2], parts[3])
    if start == end:
        raise ValueError(f"expected two different times of the day such as 22:00-07:00, got {text!r}")
    return QuietHours(start=start, end=end, zone=zone)
