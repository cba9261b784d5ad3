"""A daemon of a few lines: answers the routes that the demonstration uses, with what a test tells it."""

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class DaemonDouble:
    """Stories run to the limit; a question is answered briefly by policy@v1 only."""

    chats: list[dict[str, Any]] = field(default_factory=list)
    sessions: list[str | None] = field(default_factory=list)
    feedback: list[dict[str, Any]] = field(default_factory=list)
    update_status: str = "published"
    live: str = "policy@v0"
    polls_left: int = 1
    refuse_chats: bool = False

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/readyz", self.on_ready)
        app.router.add_post("/v1/chat/completions", self.on_chat)
        app.router.add_post("/v1/feedback", self.on_feedback)
        app.router.add_get("/admin/status", self.on_status)
        app.router.add_post("/admin/reflect", self.on_reflect)
        app.router.add_get("/admin/passes/pass_1", self.on_pass)
        app.router.add_post("/admin/update", self.on_update)
        app.router.add_get("/admin/updates/upd_1", self.on_update_record)
        return app

    async def on_ready(self, request: web.Request) -> web.Response:
        return web.json_response({"ready": True})

    async def on_chat(self, request: web.Request) -> web.Response:
        if self.refuse_chats:
            return web.json_response({"error": {"message": "draining"}}, status=503)
        body = await request.json()
        self.chats.append(body)
        self.sessions.append(request.headers.get("X-Session-Id"))
        version = self.live if body["model"] == "policy" else body["model"]
        brief = version == "policy@v1" and not body["messages"][-1]["content"].startswith("Write")
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "Brief." if brief else "At length."},
            "finish_reason": "stop" if brief else "length",
        }
        usage = {"completion_tokens": 9 if brief else body["max_tokens"]}
        answer = {"id": "chatcmpl-1", "model": version, "choices": [choice], "usage": usage}
        return web.json_response(answer, headers={"X-Interaction-Id": f"int_{len(self.chats)}"})

    async def on_feedback(self, request: web.Request) -> web.Response:
        self.feedback.append(await request.json())
        return web.json_response({"id": "fb_1", "interaction_id": "int_1"})

    async def on_status(self, request: web.Request) -> web.Response:
        return web.json_response({"running": {"stage": "train", "done": 1, "total": 3}})

    async def on_reflect(self, request: web.Request) -> web.Response:
        return web.json_response({"pass_id": "pass_1"})

    async def on_pass(self, request: web.Request) -> web.Response:
        return web.json_response({"id": "pass_1", "status": self._poll("done")})

    async def on_update(self, request: web.Request) -> web.Response:
        self.polls_left = 1
        return web.json_response({"update_id": "upd_1"})

    async def on_update_record(self, request: web.Request) -> web.Response:
        status = self._poll(self.update_status)
        published = 1 if status == "published" else None
        if published:
            self.live = "policy@v1"
        record = {"id": "upd_1", "status": status, "reason": "", "parent_version": 0, "published_version": published}
        return web.json_response(record)

    def _poll(self, end: str) -> str:
        self.polls_left -= 1
        return "running" if self.polls_left >= 0 else end
