"""Where HTTP listens: the TCP address, and the admin socket that only the owner of the data directory can open."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from agent.tables import ServerSettings

_HANDLER_GRACE_S = 2.0
"""For answers under way when the sites close; chats have ended by then."""


class AddressTakenError(OSError):
    """Something else listens on the address."""


class Listener:
    """The open sites of one application."""

    def __init__(self, url: str, sites: list[web.BaseSite]) -> None:
        self.url = url
        self._sites = sites

    async def stop_accepting(self) -> None:
        """No new connections; open ones go on."""
        for site in self._sites:
            await site.stop()


@asynccontextmanager
async def listening(app: web.Application, server: ServerSettings, admin_socket: Path) -> AsyncIterator[Listener]:
    """Listen while the block runs. Raises AddressTakenError."""
    runner = web.AppRunner(
        app, handler_cancellation=True, access_log=None, shutdown_timeout=_HANDLER_GRACE_S, keepalive_timeout=75.0
    )
    await runner.setup()
    try:
        tcp, unix = web.TCPSite(runner, server.host, server.port), web.UnixSite(runner, str(admin_socket))
        await _start(tcp, server)
        await unix.start()
        await asyncio.to_thread(admin_socket.chmod, 0o600)
        port = runner.addresses[0][1]
        host = f"[{server.host}]" if ":" in server.host else server.host
        yield Listener(f"http://{host}:{port}", [tcp, unix])
    finally:
        await runner.cleanup()


async def _start(site: web.TCPSite, server: ServerSettings) -> None:
    try:
        await site.start()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        message = f"{server.host}:{server.port} is in use by another program; choose another port (--port, 0: any)"
        raise AddressTakenError(message) from None
