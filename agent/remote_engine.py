"""An engine that runs elsewhere (a vLLM server behind a URL): watched, not started. The same two verbs as a child."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from memory.completions import EngineUnavailable

log = structlog.get_logger(__name__)

_POLL_S = 5.0


class RemoteEngine:
    """`run` asks for its health for ever; `wait_ready` waits until it answered well."""

    def __init__(self, ask_health: Callable[[], Awaitable[object]], *, on_ready: Callable[[], Awaitable[None]]) -> None:
        self._ask_health = ask_health
        self._on_ready = on_ready
        self._ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._ready.wait()

    async def run(self) -> None:
        """After every time it was away, what must be resident is loaded again before it counts as ready."""
        while True:
            try:
                await self._ask_health()
                if not self._ready.is_set():
                    await self._on_ready()
                    self._ready.set()
                    log.info("engine ready")
            except EngineUnavailable as error:
                if self._ready.is_set():
                    log.warning("engine gone", error=str(error))
                self._ready.clear()
            await asyncio.sleep(_POLL_S if self._ready.is_set() else _POLL_S / 10)
