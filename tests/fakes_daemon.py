"""A daemon as the command line sees it: a real HTTP server on a real Unix socket that gives the answers it was told.

Tested itself by tests/packaging/test_commands.py: what the commands ask for is kept in `asked`.
"""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from aiohttp import web

Answer = Callable[[dict[str, Any]], tuple[int, object]]
"""From a request's JSON to (status, JSON); a str instead of JSON is sent as server-sent events."""


class FakeDaemon:
    """Answers by (method, path). Use as a context manager; writes daemon.json as a daemon does."""

    def __init__(self, data_dir: Path, answers: Mapping[tuple[str, str], Answer]) -> None:
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self._data_dir = data_dir
        self._answers = answers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *exc_info: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        socket = self._data_dir / "admin.sock"
        await web.UnixSite(self._runner, str(socket)).start()
        found = {"pid": os.getpid(), "url": "http://127.0.0.1:8700", "admin_socket": str(socket)}
        (self._data_dir / "daemon.json").write_text(json.dumps(found))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else dict(request.query)
        self.asked.append((request.method, request.path, body))
        answer = self._answers.get((request.method, request.path))
        if answer is None:
            return web.json_response({"error": {"message": f"No {request.path} here."}}, status=404)
        status, content = answer(body)
        if isinstance(content, str):
            return web.Response(text=content, content_type="text/event-stream", headers=_served_by())
        return web.json_response(content, status=status)


def _served_by() -> dict[str, str]:
    return {"X-Interaction-Id": "int_1", "X-Policy-Version": "policy@v3", "X-Session-Id": "ses_1"}
