"""What a service manager hears, on a real datagram socket."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.notify import Notifier


@pytest.fixture
def manager(short_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(short_path / "notify"))
        listener.setblocking(False)
        yield listener


def heard(manager: socket.socket) -> list[str]:
    messages = []
    while True:
        try:
            messages.append(manager.recv(4096).decode())
        except BlockingIOError:
            return messages


async def test_ready_alive_and_stopping_are_told(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "40000"})
    notifier.ready("serving policy@v3")
    beating = asyncio.create_task(notifier.keep_alive())
    await asyncio.sleep(0.1)
    beating.cancel()
    notifier.stopping()
    first, *beats, last = heard(manager)
    assert first == "READY=1\nSTATUS=serving policy@v3"
    assert len(beats) >= 3
    assert set(beats) == {"WATCHDOG=1"}
    assert last.startswith("STOPPING=1")


async def test_nobody_who_asked_nobody_who_is_told(tmp_path: Path, manager: socket.socket) -> None:
    """No manager, a manager that is gone, and a watchdog that is meant for another process."""
    Notifier({}).ready("unheard")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("unheard")
    other = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": str(os.getpid() + 1)}
    await asyncio.wait_for(Notifier(other).keep_alive(), 1)
    assert heard(manager) == []
