"""Stop strings, matched on decoded text as it arrives. Pure text: it does not know of tokens or streams."""

from collections.abc import Sequence


class StopMatcher:
    """Gives back text that may be sent, and holds back what could turn out to begin a stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.matched = False

    def push(self, text: str) -> str:
        """The text that is now safe to send. After a match: what came before the stop string, and then nothing."""
        if self.matched:
            return ""
        self._held += text
        starts = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if starts:
            self.matched = True
            return self._release(min(starts))
        return self._release(len(self._held) - self._num_ambiguous())

    def flush(self) -> str:
        """The rest, once no more text comes."""
        return "" if self.matched else self._release(len(self._held))

    def _release(self, count: int) -> str:
        released, self._held = self._held[:count], self._held[count:]
        return released

    def _num_ambiguous(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for count in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-count:]) for stop in self._stops):
                return count
        return 0
