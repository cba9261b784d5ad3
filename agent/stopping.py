"""How the daemon is asked to stop, and how one cause is found among several consequences."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """The first signal asks to drain, the second to do it at once."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._urgent = asyncio.Event()

    def ask(self) -> None:
        if self._asked.is_set():
            self._urgent.set()
        self._asked.set()

    async def wait(self) -> None:
        await self._asked.wait()

    async def wait_urgent(self) -> None:
        await self._urgent.wait()


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """SIGTERM and SIGINT ask while the block runs; then they mean what they meant before."""
    stop = StopRequest()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.ask)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def only_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error inside nested groups, where there is one; the group itself where there are several."""
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
        leaf = leaf.exceptions[0]
    return leaf
