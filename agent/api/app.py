"""The HTTP application: routes and the middlewares around them. Whatever a handler raises becomes an answer here."""

import contextlib
import time
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from agent.api import admin, backup, chat, feedback, health, keys, models, schedule
from agent.api.auth import check_origin, let_in, require_admin
from agent.api.context import CONTEXT, REQUEST_ID, Context
from agent.api.errors import INTERNAL, api_error
from agent.api.sse import STREAM, EventStream
from memory.records import new_id

log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_OPEN_PATHS = ("/healthz", "/readyz")
"""Answered without a key."""
_ADMIN_PATHS = ("/admin", "/metrics")
ROUTES = (
    web.post("/v1/chat/completions", chat.complete_chat),
    web.get("/v1/models", models.list_models),
    web.get("/v1/models/{id}", models.get_model),
    web.post("/v1/feedback", feedback.add_feedback),
    web.get("/healthz", health.healthz),
    web.get("/readyz", health.readyz),
    web.get("/metrics", health.metrics),
    web.get("/admin/status", admin.status),
    web.post("/admin/reflect", admin.start_reflect),
    web.get("/admin/passes", admin.list_passes),
    web.get("/admin/passes/{id}", admin.get_pass),
    web.get("/admin/reflections", admin.list_reflections),
    web.get("/admin/clusters", admin.list_clusters),
    web.post("/admin/update", admin.start_update),
    web.get("/admin/updates", admin.list_updates),
    web.get("/admin/updates/{id}", admin.get_update),
    web.get("/admin/versions", admin.list_versions),
    web.post("/admin/rollback", admin.roll_back),
    web.get("/admin/interactions", admin.list_interactions),
    web.get("/admin/interactions/{id}", admin.get_interaction),
    web.get("/admin/why/{id}", admin.why),
    web.get("/admin/schedule", schedule.show_schedule),
    web.post("/admin/schedule", schedule.change_schedule),
    web.post("/admin/passes/{id}/abort", schedule.abort_pass),
    web.post("/admin/backup", backup.start_backup),
    web.get("/admin/keys", keys.list_keys),
    web.post("/admin/keys", keys.add_key),
    web.post("/admin/keys/{id}/revoke", keys.revoke_key),
)
"""Every way in."""
_CORS = {
    "Vary": "Origin",
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, X-Session-Id",
    "Access-Control-Expose-Headers": "X-Interaction-Id, X-Policy-Version, X-Request-Id, X-Session-Id",
}


def build_app(context: Context) -> web.Application:
    app = web.Application(
        middlewares=[answer_and_count, guard], client_max_size=int(context.server.max_body_mib * 1024 * 1024)
    )
    app[CONTEXT] = context
    app.on_response_prepare.append(allow_origin)
    app.router.add_routes(ROUTES)
    return app


@web.middleware
async def answer_and_count(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give every request an id, every error the shape clients read, and every answer a place in the metrics."""
    request_id = request[REQUEST_ID] = new_id("req")
    started_s = time.monotonic()
    try:
        response = await handler(request)
    except Exception as error:  # noqa: BLE001 - the edge: every error becomes a status here, and nowhere else
        response = await _answer_error(error, request)
    if not response.prepared:
        response.headers["X-Request-Id"] = request_id
    _count(request, response.status, time.monotonic() - started_s)
    return response


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Host, Origin and key, before anything is read. Deny by default: only health is open."""
    context = request.app[CONTEXT]
    check_origin(request, context.server)
    if request.method == "OPTIONS":
        return web.Response(status=204)  # a browser asks before it calls; allow_origin answers
    if request.path not in _OPEN_PATHS:
        let_in(request, context.keys, context.server)
    if request.path.startswith(_ADMIN_PATHS):
        require_admin(request)
    return await handler(request)


async def allow_origin(request: web.Request, response: web.StreamResponse) -> None:
    """Tell a browser that a page of a configured origin may read this answer."""
    origin = request.headers.get("Origin")
    if origin is not None and origin in request.app[CONTEXT].server.allowed_origins:
        response.headers.update({**_CORS, "Access-Control-Allow-Origin": origin})


async def _answer_error(error: Exception, request: web.Request) -> web.StreamResponse:
    """A status, or an error event where the status line has gone out already."""
    stream: EventStream | None = request.get(STREAM)
    if stream is not None and isinstance(error, ConnectionResetError):
        return stream.response  # the client left
    answer = api_error(error)
    if answer.code == INTERNAL:
        log.error("request failed", path=request.path, request_id=request[REQUEST_ID], exc_info=error)
    if stream is None:
        return web.json_response(answer.body, status=answer.status, headers=answer.headers)
    with contextlib.suppress(ConnectionResetError):
        await stream.send(answer.body)
        await stream.close()
    return stream.response


def _count(request: web.Request, status: int, seconds: float) -> None:
    resource = request.match_info.route.resource
    route = resource.canonical if resource is not None else "none"
    metrics = request.app[CONTEXT].metrics
    metrics.http_requests.labels(route, str(status)).inc()
    metrics.http_seconds.labels(route).observe(seconds)
