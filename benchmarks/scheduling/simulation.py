"""A day in the life of the clock, with wall time and real time in our hands. The store and the clock are real."""

from datetime import UTC, datetime, timedelta

from agent.clock import Clock
from agent.schedule import Schedule
from memory.store import Store
from reflection.settings import ScheduleSettings

START = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday
KIND = "reflect"
TICK_S = 60.0
_SELDOM_S = 1e9


class Simulation:
    """Passes begin when they are asked for and end after `pass_minutes`."""

    def __init__(self, store: Store, *, by_wall_clock: bool = False) -> None:
        self.fired: list[str] = []
        self.pass_minutes = 0
        self.clock: Clock
        self._store = store
        self._by_wall_clock = by_wall_clock
        self._wall = START
        self._real_s = 1000.0
        self._ends_s: float | None = None

    async def start(self, **keys: object) -> None:
        """A daemon begins, on what the last one left behind."""
        self.clock = Clock(store=self._store, now=lambda: self._wall, real_s=self._read_real_s, save_every_s=_SELDOM_S)
        await self.clock.restore({KIND: Schedule.read(ScheduleSettings.model_validate(keys))})

    async def stop(self, *, minutes: float) -> None:
        """It ends, and nothing runs for so long."""
        await self.clock.save()
        self._pass_time(60 * minutes)

    async def live(self, *, hours: float) -> None:
        for _ in range(round(hours * 3600 / TICK_S)):
            self._pass_time(TICK_S)
            if self._ends_s is not None and self._real_s >= self._ends_s:
                self._ends_s = None
            asked = len(self.fired)
            await self.clock.tick(self, idle_s=0.0)
            if len(self.fired) > asked:
                await self.clock.note_started(KIND)
                self._ends_s = self._real_s + 60 * self.pass_minutes if self.pass_minutes else None

    def step(self, **by: float) -> None:
        """Somebody sets the wall clock."""
        self._wall += timedelta(**by)

    def is_active(self, _kind: str) -> bool:
        return self._ends_s is not None

    def ask(self, _kind: str, _trigger: str) -> None:
        self.fired.append(self._wall.strftime("%d %H:%M"))

    def _read_real_s(self) -> float:
        return self._wall.timestamp() if self._by_wall_clock else self._real_s

    def _pass_time(self, seconds: float) -> None:
        self._wall += timedelta(seconds=seconds)
        self._real_s += seconds
