"""The configuration read again: what changes at once, what is named, and what changes nothing."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent.clock import Clock
from agent.config import ConfigError
from agent.reloading import Reloader, changed_keys
from agent.schedules import Schedules
from agent.tables import Settings
from memory.records import utc_now
from memory.store import open_store


def settings_of(**tables: Mapping[str, object]) -> Settings:
    return Settings.model_validate(tables)


@pytest.fixture
async def schedules(tmp_path: Path) -> AsyncIterator[Schedules]:
    async with open_store(tmp_path) as store:
        before = Settings()
        made = Schedules(
            configured={"reflect": before.reflection, "update": before.updater},
            clock=Clock(store=store, now=utc_now),
            store=store,
        )
        await made.restore()
        yield made


async def reload(schedules: Schedules, after: Settings) -> Mapping[str, Any]:
    with capture_logs() as logs:
        await Reloader(Settings(), read=lambda: after, schedules=schedules).reload()
    return logs[-1]


async def test_schedules_change_at_once(schedules: Schedules) -> None:
    """But for what an operator set by hand, which stays."""
    await schedules.change("update", {"every": "3h"})
    said = await reload(
        schedules, settings_of(reflection={"every": "30m"}, updater={"every": "1h", "cron": "0 4 * * *"})
    )
    assert schedules.in_force("reflect").every == "30m"
    assert schedules.clock.timers["reflect"].schedule.every_s == 1800
    assert (schedules.in_force("update").every, schedules.in_force("update").cron) == ("3h", "0 4 * * *")
    assert said["applied"] == ["reflection.every", "updater.every", "updater.cron"]
    assert said["needs_restart"] == []


async def test_what_needs_a_restart_is_named(schedules: Schedules) -> None:
    said = await reload(schedules, settings_of(server={"port": 1}, updater={"rank": 8}))
    assert (said["applied"], said["needs_restart"]) == ([], ["server.port", "updater.rank"])


async def test_what_cannot_be_read_changes_nothing(schedules: Schedules) -> None:
    """The daemon goes on with what it had, and says which line is wrong."""

    def broken() -> Settings:
        raise ConfigError("config.toml line 3: there is no key server.prot")

    with capture_logs() as logs:
        await Reloader(Settings(), read=broken, schedules=schedules).reload()
    assert "line 3" in logs[-1]["reason"]
    assert logs[-1]["log_level"] == "warning"


async def test_the_signal_asks_for_it_and_again(schedules: Schedules) -> None:
    """A second reload compares with the first."""
    read = iter([settings_of(server={"port": 1}), settings_of(server={"port": 1}, reflection={"every": "30m"})])
    with capture_logs() as logs:
        running = asyncio.create_task(Reloader(Settings(), read=lambda: next(read), schedules=schedules).run())
        for count in (1, 2):
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGHUP)
            while sum(line["event"] == "configuration read again" for line in logs) < count:  # noqa: ASYNC110 - a log
                await asyncio.sleep(0.01)
        running.cancel()
    assert [line["needs_restart"] for line in logs if "needs_restart" in line] == [["server.port"], []]


def test_equal_settings_have_no_changed_keys() -> None:
    assert list(changed_keys(Settings(), Settings())) == []
