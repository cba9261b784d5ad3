"""Server-sent events as chat clients read them. Knows the wire, not what is sent."""

import asyncio
import json

from aiohttp import web

KEEP_ALIVE_S = 15.0
"""Of silence, before a comment says that the connection still lives."""
_WRITE_TIMEOUT_S = 15.0
"""A client that does not read for so long has left."""
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


class EventStream:
    """One response of events. Raises ConnectionResetError when the client has left or reads nothing."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.response = web.StreamResponse(headers={**HEADERS, **headers})
        self._transport: asyncio.Transport | None = None

    async def open(self, request: web.Request) -> None:
        self._transport = request.transport
        await self.response.prepare(request)

    async def send(self, event: object) -> None:
        text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        await self._write(f"data: {text}\n\n")

    async def keep_alive(self) -> None:
        await self._write(": keep-alive\n\n")

    async def close(self) -> None:
        await self._write("data: [DONE]\n\n")
        await self.response.write_eof()

    async def _write(self, text: str) -> None:
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                await self.response.write(text.encode())
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()  # or closing would wait for the same buffer
            raise ConnectionResetError("the client reads nothing") from None


STREAM = web.RequestKey("event_stream", EventStream)
"""Under which a request keeps its open stream: errors that come after the status line go there."""
