"""SIGHUP: the configuration is read again. What can change while the daemon runs does; the rest is named."""

import asyncio
import signal
from collections.abc import Callable, Iterator

import structlog

from agent.config import ConfigError
from agent.logs import configure_logs
from agent.schedules import KEYS, Schedules
from agent.tables import Settings

log = structlog.get_logger(__name__)

_SCHEDULED = ("reflection", "updater")
LOG_LEVEL = "agent.log_level"


class Reloader:
    """Holds the settings in force, as far as they can change."""

    def __init__(self, settings: Settings, *, read: Callable[[], Settings], schedules: Schedules) -> None:
        self._settings = settings
        self._read = read
        self._schedules = schedules

    async def run(self) -> None:
        """Reload at every SIGHUP, until cancelled."""
        asked, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, asked.set)
        try:
            while await asked.wait():
                asked.clear()
                await self.reload()
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    async def reload(self) -> None:
        """What cannot be read changes nothing."""
        try:
            settings = await asyncio.to_thread(self._read)
        except ConfigError as problem:
            log.warning("configuration not read again", reason=str(problem))
            return
        changed = list(changed_keys(self._settings, settings))
        applied = [name for name in changed if is_live(name)]
        if any(name.startswith(_SCHEDULED) for name in applied):
            await self._schedules.reconfigure({"reflect": settings.reflection, "update": settings.updater})
        if LOG_LEVEL in applied:
            configure_logs(settings.agent.log_level)
        self._settings = settings
        needs_restart = [name for name in changed if not is_live(name)]
        log.info("configuration read again", applied=applied, needs_restart=needs_restart)


def changed_keys(before: Settings, after: Settings) -> Iterator[str]:
    """table.key of every key whose value differs."""
    for table in Settings.model_fields:
        old, new = getattr(before, table), getattr(after, table)
        yield from (f"{table}.{key}" for key in type(old).model_fields if getattr(old, key) != getattr(new, key))


def is_live(name: str) -> bool:
    """True if the key can change while the daemon runs."""
    table, _, key = name.partition(".")
    return name == LOG_LEVEL or (table in _SCHEDULED and key in KEYS)
