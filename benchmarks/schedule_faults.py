"""Do passes run exactly when the schedule says, whatever happens to the clock, the calendar or the daemon?

The real clock on a real store, with wall and real time in our hands: steps forward and back, restarts at the due
moment, passes longer than their interval, quiet hours, every weekday by number and name, and two years of daylight
saving in three zones against a calendar that is counted out minute by minute. Then a real daemon, killed again and
again around the moment its reflection is due.

`SABOTAGE=wall_clock` counts periods by the wall clock, as APScheduler does. `QUICK=1` takes one zone and two kills.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from agent.schedule import Cron
from benchmarks.common import QUICK, Figure, finish, print_table, sabotage
from benchmarks.scheduling.kills import kill_around_due
from benchmarks.scheduling.simulation import START, Simulation
from memory.store import open_store

ZONES = ("Europe/Berlin",) if QUICK else ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
NUM_KILLS = 2 if QUICK else 12
DAYS = 2 * 365
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MAX_SHOWN = 60

Row = tuple[str, str, str, bool]
"""What was done, what should have been fired, what was, and whether that is the same."""


def main() -> int:
    started = time.perf_counter()
    by_wall_clock = sabotage(("wall_clock",)) is not None
    rows = [*asyncio.run(_simulated(by_wall_clock=by_wall_clock)), *_daylight_saving(), *asyncio.run(_killed())]
    shown = [(name, said[:MAX_SHOWN], seen[:MAX_SHOWN], "ok" if ok else "NO") for name, said, seen, ok in rows]
    print_table("Fired as said", ("case", "said", "fired", ""), shown)
    wrong = [name for name, _, _, ok in rows if not ok]
    figure = Figure(
        name="schedule_faults",
        value=float(len(wrong)),
        target="0 cases that did not fire exactly as said",
        ok=not wrong,
        details={"cases": len(rows), "wrong": wrong},
    )
    return finish(figure, started=started)


async def _simulated(*, by_wall_clock: bool) -> list[Row]:
    rows = []
    for name, scenario, said in CASES:
        with tempfile.TemporaryDirectory(prefix="schedule-") as folder:
            async with open_store(Path(folder)) as store:
                world = Simulation(store, by_wall_clock=by_wall_clock)
                await scenario(world)
        seen = ", ".join(world.fired)
        rows.append((name, said, seen, seen == said))
    return rows


def _daylight_saving() -> list[Row]:
    """Two years of a nightly and of an hourly cron against a calendar that is counted out."""
    rows = []
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    end = begin + timedelta(days=DAYS)
    for name in ZONES:
        zone = ZoneInfo(name)
        for text, expected in (("30 2 * * *", _nightly(zone, begin, end)), ("0 * * * *", _hourly(zone, begin, end))):
            found, moment, cron = [], begin, Cron(text=text, zone=zone)
            while (moment := cron.next_after(moment) or end) < end:
                found.append(moment)
            same = found == expected
            rows.append((f"{name}, {text}, {DAYS} days", f"{len(expected)} times", f"{len(found)} times", same))
    return rows


def _nightly(zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """02:30 of every local day: the first of two, and where there is none as long after midnight as ever."""
    found = []
    day = begin.astimezone(zone).date()
    while day <= end.astimezone(zone).date():
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
        minutes = (midnight + timedelta(minutes=count) for count in range(26 * 60))
        matching = (minute for minute in minutes if _is_at(minute, zone, day))
        found.append(next(matching, midnight + timedelta(hours=2, minutes=30)))
        day += timedelta(days=1)
    return [moment for moment in found if begin < moment < end]


def _is_at(minute: datetime, zone: ZoneInfo, day: date) -> bool:
    local = minute.astimezone(zone)
    return local.date() == day and (local.hour, local.minute) == (2, 30)


def _hourly(zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """Every minute 0 of the local clock."""
    minutes = (begin + timedelta(minutes=count) for count in range(30, (end - begin) // timedelta(minutes=1), 30))
    return [minute for minute in minutes if minute.astimezone(zone).minute == 0]


async def _killed() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="schedule-kill-") as folder:
        result = await kill_around_due(Path(folder) / "data", num_kills=NUM_KILLS)
    said = f"a pass for each kill after it was due ({NUM_KILLS // 2}), never two at once, none left running"
    seen = f"{result.num_passes} passes, {result.num_overlapping} overlapping, {result.num_left_running} left running"
    ok = result.num_passes >= NUM_KILLS // 2 and not result.num_overlapping and not result.num_left_running
    return [("a daemon killed around the due moment", said, seen, ok)]


async def _every(world: Simulation) -> None:
    await world.start(every="1h")
    await world.live(hours=3)


async def _step_forward(world: Simulation) -> None:
    await world.start(every="1h")
    await world.live(hours=0.5)
    world.step(days=3)
    await world.live(hours=1)


async def _step_back(world: Simulation) -> None:
    await world.start(every="1h")
    await world.live(hours=0.5)
    world.step(days=-3)
    await world.live(hours=1)


async def _cron_jumped_over(world: Simulation) -> None:
    await world.start(cron="0 13 * * *")
    world.step(hours=3)
    await world.live(hours=24)


async def _cron_set_back(world: Simulation) -> None:
    await world.start(cron="0 13 * * *")
    await world.live(hours=1.1)
    world.step(minutes=-30)
    await world.live(hours=25)


async def _far_ahead(world: Simulation) -> None:
    await world.start(cron="0 13 * * *")
    world.step(days=3650)
    await world.live(hours=0.1)
    world.step(days=-3650)
    await world.live(hours=1.5)


async def _restart_at_due(world: Simulation) -> None:
    await world.start(cron="0 13 * * *")
    await world.live(hours=59 / 60)
    await world.stop(minutes=2)
    await world.start(cron="0 13 * * *")
    await world.live(hours=1)
    await world.stop(minutes=1)
    await world.start(cron="0 13 * * *")
    await world.live(hours=1)


async def _nine_periods_off(world: Simulation) -> None:
    await world.start(every="1h")
    await world.stop(minutes=9 * 60)
    await world.start(every="1h")
    await world.live(hours=1.5)


async def _long_pass(world: Simulation) -> None:
    world.pass_minutes = 35
    await world.start(every="10m")
    await world.live(hours=1.5)


async def _quiet(world: Simulation) -> None:
    await world.start(cron="0 1,2,3 * * *", quiet_hours="22:00-07:00")
    await world.live(hours=24)


async def _paused(world: Simulation) -> None:
    await world.start(every="1h")
    await world.clock.pause(wanted=True)
    await world.live(hours=5)
    await world.clock.pause(wanted=False)
    await world.live(hours=1.5)


def _weekday(day: str) -> Callable[[Simulation], Awaitable[None]]:
    async def scenario(world: Simulation) -> None:
        await world.start(cron=f"30 4 * * {day}")
        await world.live(hours=14 * 24)

    return scenario


def _two_of(number: int) -> str:
    """04:30 of the two such days in the fortnight after START, a Wednesday."""
    first = next(day for day in range(1, 8) if (START + timedelta(days=day)).isoweekday() % 7 == number % 7)
    return ", ".join(f"{(START + timedelta(days=day)).strftime('%d')} 04:30" for day in (first, first + 7))


CASES: tuple[tuple[str, Callable[[Simulation], Awaitable[None]], str], ...] = (
    ("every 1h", _every, "04 13:00, 04 14:00, 04 15:00"),
    ("every 1h, clock set 3 days ahead after half of it", _step_forward, "07 13:00"),
    ("every 1h, clock set 3 days back after half of it", _step_back, "01 13:00"),
    ("cron 13:00, clock set from 12:00 to 15:00", _cron_jumped_over, "04 15:01, 05 13:00"),
    ("cron 13:00, clock set back half an hour after it", _cron_set_back, "04 13:00, 05 13:00"),
    ("cron 13:00, clock ten years ahead for six minutes", _far_ahead, "01 12:01, 04 13:00"),
    ("cron 13:00, restarted over it, and once more", _restart_at_due, "04 13:02"),
    ("every 1h, off for nine hours", _nine_periods_off, "04 21:01, 04 22:01"),
    ("every 10m, passes of 35 minutes", _long_pass, "04 12:10, 04 12:45, 04 13:20"),
    ("cron 1, 2 and 3 o'clock, quiet from 22 to 7", _quiet, "05 07:00"),
    ("every 1h, paused for five hours", _paused, "04 17:01, 04 18:01"),
    *((f"weekday {day}", _weekday(day), _two_of(number)) for number, day in enumerate(WEEKDAYS)),
    *((f"weekday {number}", _weekday(str(number)), _two_of(number)) for number in range(8)),
)


if __name__ == "__main__":
    sys.exit(main())
