"""/healthz, /readyz and /metrics: cheap, and never a touch on model or database."""

from aiohttp import web

from agent.api.context import CONTEXT


async def healthz(_request: web.Request) -> web.Response:
    """The process is alive and its loop turns."""
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """200 if a chat would be admitted now."""
    not_ready = request.app[CONTEXT].phase.not_ready
    if not_ready is not None:
        return web.json_response({"status": "not ready", "reason": not_ready}, status=503)
    return web.json_response({"status": "ready"})


async def metrics(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    context.metrics.in_flight.set(context.responder.num_in_flight)
    context.metrics.live_version.set(context.policy.live.number)
    content_type = "text/plain; version=0.0.4; charset=utf-8"
    return web.Response(body=context.metrics.render(), headers={"Content-Type": content_type})
