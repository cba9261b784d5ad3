"""When passes are asked for, under clocks that step, daemons that were off, and passes that take long."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn, cast

import pytest

from agent.clock import Clock
from agent.schedule import Schedule
from memory.database import DatabaseError
from memory.store import Store, open_store
from reflection.settings import ScheduleSettings

START = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


class FullDisk:
    """A store that nothing can be read from or written to."""

    @property
    def state(self) -> NoReturn:
        raise DatabaseError("database or disk is full")


@dataclass
class World:
    """Wall and real time, and passes that begin when they are asked for and end when they are told."""

    store: Store
    wall: datetime = START
    real_s: float = 1000.0
    clock: Clock = field(init=False)
    asked: list[tuple[str, str]] = field(default_factory=list)
    active: set[str] = field(default_factory=set)
    takes_long: bool = False

    def is_active(self, kind: str) -> bool:
        return kind in self.active

    def ask(self, kind: str, trigger: str) -> None:
        self.asked.append((self.wall.strftime("%d %H:%M"), trigger))
        self.active.add(kind)

    async def start(self, **keys: object) -> None:
        """A daemon begins, on what the last one left behind."""
        self.clock = Clock(store=self.store, now=lambda: self.wall, real_s=lambda: self.real_s)
        await self.clock.restore({"reflect": Schedule.read(ScheduleSettings.model_validate(keys))})

    async def live(self, *, minutes: float, idle_s: float = 0.0) -> list[tuple[str, str]]:
        """Let it run, looking every half minute; gives what was asked for meanwhile."""
        before = len(self.asked)
        for _ in range(round(minutes * 2)):
            self.pass_time(seconds=30)
            await self.clock.tick(self, idle_s=idle_s)
            if self.active and not self.takes_long:
                await self.begin_and_end()
        return self.asked[before:]

    async def begin_and_end(self) -> None:
        await self.clock.note_started("reflect")
        self.active.clear()

    def pass_time(self, *, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.real_s += seconds

    def step(self, **by: float) -> None:
        """Somebody sets the wall clock."""
        self.wall += timedelta(**by)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_store(tmp_path) as store:
        yield World(store)


async def test_every_counts_from_the_last_run(world: World) -> None:
    """Once an hour, and not at the start."""
    await world.start(every="1h")
    assert await world.live(minutes=59) == []
    assert await world.live(minutes=1) == [("04 13:00", "every")]
    assert await world.live(minutes=120) == [("04 14:00", "every"), ("04 15:00", "every")]


@pytest.mark.parametrize("hours", [-48, -1, 1, 48, 87_600])
async def test_a_step_of_the_clock_neither_hurries_nor_stops_every(world: World, hours: float) -> None:
    """An hour is an hour."""
    await world.start(every="1h")
    await world.live(minutes=30)
    world.step(hours=hours)
    assert await world.live(minutes=29) == []
    assert len(await world.live(minutes=61)) == 2


async def test_a_cron_time_that_the_clock_jumps_over_runs_once(world: World) -> None:
    """And the next one comes at its own time."""
    await world.start(cron="0 13 * * *")
    world.step(hours=3)
    assert await world.live(minutes=1) == [("04 15:00", "cron")]
    assert await world.live(minutes=60 * 23) == [("05 13:00", "cron")]


async def test_a_cron_time_does_not_come_twice_because_the_clock_was_set_back(world: World) -> None:
    """What ran at 13:00 does not run again at the second 13:00 of that day."""
    await world.start(cron="0 13 * * *")
    assert await world.live(minutes=61) == [("04 13:00", "cron")]
    world.step(minutes=-30)
    assert await world.live(minutes=60 * 25) == [("05 13:00", "cron")]


async def test_a_clock_that_was_far_ahead_does_not_silence_cron(world: World) -> None:
    """Ten years ahead for a while, then set right: the next time is today's, not one in ten years."""
    await world.start(cron="0 13 * * *")
    world.step(days=3650)
    await world.live(minutes=1)
    world.step(days=-3650)
    world.asked.clear()
    assert await world.live(minutes=90) == [("04 13:00", "cron")]


async def test_a_restart_at_the_due_moment_runs_it_once(world: World) -> None:
    """Neither lost nor doubled, whether the daemon stopped before or after it was asked for."""
    await world.start(cron="0 13 * * *")
    await world.live(minutes=59.5)
    await world.clock.save()
    world.pass_time(seconds=60)
    await world.start(cron="0 13 * * *")
    assert [trigger for _, trigger in await world.live(minutes=10)] == ["cron"]
    await world.start(cron="0 13 * * *")
    assert await world.live(minutes=10) == []


async def test_what_was_missed_while_off_is_made_up_once_and_not_at_once(world: World) -> None:
    """Nine periods are one run, half a minute after the start; time that was nearly over is not started anew."""
    await world.start(every="1h")
    await world.live(minutes=20)
    await world.clock.save()
    world.pass_time(seconds=9 * 3600)
    await world.start(every="1h")
    assert await world.live(minutes=59) == [("04 21:20", "every")]
    await world.clock.save()
    await world.start(every="1h")
    assert len(await world.live(minutes=2)) == 1


async def test_a_clock_that_was_wrong_before_a_restart_does_not_matter(world: World) -> None:
    """Only the time it was off is measured by the wall clock, and never as less than nothing."""
    await world.start(every="1h")
    world.step(days=400)
    await world.live(minutes=30)
    await world.clock.save()
    world.step(days=-400)
    await world.start(every="1h")
    assert await world.live(minutes=29) == []
    assert len(await world.live(minutes=2)) == 1


async def test_a_pass_longer_than_its_interval_never_overlaps_itself(world: World) -> None:
    """While it runs nothing is asked for; afterwards the next one follows at once, and only one."""
    await world.start(every="10m")
    world.takes_long = True
    assert len(await world.live(minutes=10)) == 1
    await world.clock.note_started("reflect")
    assert await world.live(minutes=35) == []
    world.active.clear()
    world.takes_long = False
    assert len(await world.live(minutes=1)) == 1
    assert await world.live(minutes=9) == []


async def test_quiet_hours_hold_what_falls_due_and_let_it_run_once_afterwards(world: World) -> None:
    """Of three cron times in the night one run is left, at its end."""
    await world.start(cron="0 1,2,3 * * *", quiet_hours="22:00-07:00")
    assert await world.live(minutes=60 * 18.9) == []
    assert world.clock.timers["reflect"].held_by(world.wall) == "quiet hours"
    assert world.clock.next_due("reflect") == datetime(2026, 3, 5, 7, 0, tzinfo=UTC)
    assert await world.live(minutes=30) == [("05 07:00", "cron")]


async def test_a_pause_holds_everything_and_a_disabled_kind_itself(world: World) -> None:
    """What fell due during a pause runs once after it; what is disabled is not made up for."""
    await world.start(every="1h")
    await world.clock.pause(wanted=True)
    assert await world.live(minutes=200) == []
    await world.clock.pause(wanted=False)
    assert len(await world.live(minutes=1)) == 1
    await world.clock.change("reflect", Schedule.read(ScheduleSettings(cron="0 16 * * *", enabled=False)))
    assert await world.live(minutes=120) == []
    await world.clock.change("reflect", Schedule.read(ScheduleSettings(cron="0 16 * * *")))
    assert await world.live(minutes=60) == []


async def test_counts_and_silence_are_reasons_too(world: World) -> None:
    """So many interactions, so much criticism, or so long a silence after something new."""
    await world.start(after_interactions=3, after_negative=2, when_idle="15m")
    world.clock.count_interactions(3)
    assert [why for _, why in await world.live(minutes=1)] == ["after_interactions"]
    world.clock.count_negative()
    assert await world.live(minutes=1) == []
    world.clock.count_negative()
    assert [why for _, why in await world.live(minutes=1)] == ["after_negative"]
    assert await world.live(minutes=1, idle_s=3600) == []
    world.clock.count_interactions(1)
    assert await world.live(minutes=1, idle_s=60) == []
    assert [why for _, why in await world.live(minutes=1, idle_s=901)] == ["when_idle"]


async def test_due_times_that_cannot_be_saved_do_not_stop_the_clock(world: World) -> None:
    """A full disk must not end serving: the clock goes on, and passes are asked for."""
    await world.start(every="1h")
    world.clock.save_every_s = 0.0
    world.clock.store = cast("Store", FullDisk())
    world.pass_time(seconds=3600)
    running = asyncio.create_task(world.clock.run(world, idle_s=lambda: 0.0))
    await asyncio.sleep(2.5)  # two ticks
    assert world.asked
    assert not running.done()
    running.cancel()


async def test_a_changed_schedule_holds_from_now_on(world: World) -> None:
    """What has gathered still counts; a cron that was due by the old schedule is not."""
    await world.start(every="24h")
    await world.live(minutes=50)
    await world.clock.change("reflect", Schedule.read(ScheduleSettings(every="1h")))
    assert await world.live(minutes=9) == []
    assert len(await world.live(minutes=2)) == 1
