"""Where the time of an update went. Passes progress on and notes when each stage began."""

import time
from collections.abc import Callable


class StageTimes:
    """Call it as the progress report it wraps; a stage lasts until another is reported."""

    def __init__(self, report: Callable[[str, int, int], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._stage: str | None = None
        self._since = clock()

    def __call__(self, stage: str, done: int, total: int) -> None:
        self._count(stage)
        self._report(stage, done, total)

    def seconds(self) -> dict[str, float]:
        """By stage, in the order of their beginning, up to now."""
        self._count(self._stage)
        return {stage: round(seconds, 1) for stage, seconds in self._seconds.items()}

    def _count(self, stage: str | None) -> None:
        now = self._clock()
        if self._stage is not None:
            self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now
