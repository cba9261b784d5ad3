"""The one thread on which the engine lives, and how others reach it: an inbox in, a callback out.

Nothing else touches the engine. A request joins, or an abort acts, at the next step boundary.
"""

import queue
from collections.abc import Callable

from agent.inference.engine import Engine
from agent.inference.sequence import Sequence, SequenceEvent


class EngineThread:
    """`run` blocks until `stop`; the other methods may be called from any thread."""

    def __init__(self, engine: Engine, deliver: Callable[[list[SequenceEvent]], None]) -> None:
        self._engine = engine
        self._deliver = deliver
        self._inbox: queue.SimpleQueue[Sequence | str | None] = queue.SimpleQueue()

    def submit(self, sequence: Sequence) -> None:
        self._inbox.put(sequence)

    def abort(self, sequence_id: str) -> None:
        self._inbox.put(sequence_id)

    def stop(self) -> None:
        """Let `run` return after the step it is in."""
        self._inbox.put(None)

    def run(self) -> None:
        while self._take_inbox():
            if self._engine.has_work:
                self._deliver(self._engine.step())

    def _take_inbox(self) -> bool:
        """Apply what has arrived, waiting for something where the engine is idle; False when told to stop."""
        must_wait = not self._engine.has_work
        while must_wait or not self._inbox.empty():
            item = self._inbox.get()
            must_wait = False
            if item is None:
                return False
            if isinstance(item, Sequence):
                self._engine.add(item)
            else:
                self._engine.abort(item)
        return True
