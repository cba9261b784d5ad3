"""GET /v1/models and /v1/models/{id}: the names that a chat may ask for."""

from aiohttp import web

from agent.api.context import CONTEXT, Context
from agent.publishing import BASE, LIVE_NAMES, UnknownModelError

Json = dict[str, object]


async def list_models(request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": await _cards(request.app[CONTEXT])})


async def get_model(request: web.Request) -> web.Response:
    wanted = request.match_info["id"]
    for card in await _cards(request.app[CONTEXT]):
        if card["id"] == wanted:
            return web.json_response(card)
    raise UnknownModelError(f"The model {wanted!r} does not exist.")


async def _cards(context: Context) -> list[Json]:
    """Live names first, then the base, then every version, newest first."""
    versions = await context.policy.offered()
    created = {version.name: int(version.created_at.timestamp()) for version in versions}
    live = context.policy.live
    cards = [_card(name, created[live.name], root=live.name) for name in LIVE_NAMES]
    cards.append(_card(BASE, int(versions[0].created_at.timestamp()), root=BASE))
    return [*cards, *(_card(version.name, created[version.name], root=version.name) for version in reversed(versions))]


def _card(name: str, created: int, *, root: str) -> Json:
    return {"id": name, "object": "model", "created": created, "owned_by": "journeyman", "root": root}
