"""What a service manager is told: ready, alive, stopping. The protocol of sd_notify(3): datagrams to $NOTIFY_SOCKET.

Nothing happens where no manager asked. The keep-alive is sent by the event loop itself, so a loop that is blocked for
longer than WatchdogSec is a daemon that is started again.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping


class Notifier:
    """Tells the manager that started this process, if there is one."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        is_meant = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._watchdog_s = int(environ.get("WATCHDOG_USEC", "0")) / 1e6 if is_meant else 0.0

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=draining")

    async def keep_alive(self) -> None:
        """Twice per watchdog period, for as long as the loop turns."""
        while self._watchdog_s:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_s / 2)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # "@" stands for the zero byte of an abstract address. A manager that does not listen is no reason to fail.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.sendto(message.encode(), address)
