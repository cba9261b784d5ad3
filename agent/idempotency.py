"""At most one request at a time per idempotency key. What was answered before is in the store, not here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyClaims:
    """Who is answering which key now: a repeat waits until the first is stored."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], asyncio.Event] = {}

    @asynccontextmanager
    async def claim(self, principal: str, key: str) -> AsyncIterator[None]:
        name = (principal, key)
        while (other := self._claims.get(name)) is not None:
            await other.wait()
        self._claims[name] = done = asyncio.Event()
        try:
            yield
        finally:
            del self._claims[name]
            done.set()
