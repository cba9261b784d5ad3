"""/admin/keys: who may use the HTTP interface, made and revoked while the daemon runs. A key is shown once."""

from aiohttp import web
from pydantic import Field

from agent.api.chat_schema import StrictModel
from agent.api.context import CONTEXT
from agent.api.json_body import read_body
from agent.api.records_json import Json, record_json
from agent.keys import DIGEST, MAX_LIMIT, make_key
from memory.records import ApiKey
from memory.states import Scope


class KeyBody(StrictModel):
    id: str = Field(min_length=1, max_length=64)
    scope: Scope = Field(Scope.USER, strict=False)
    learn: bool = True
    requests_per_minute: int = Field(0, ge=0, le=MAX_LIMIT)
    tokens_per_day: int = Field(0, ge=0, le=MAX_LIMIT)
    sha256: str | None = Field(None, pattern=DIGEST.pattern)
    """Of a key that exists already; then none is made."""


async def list_keys(request: web.Request) -> web.Response:
    return web.json_response({"data": [as_json(key) for key in request.app[CONTEXT].keys.keys]})


async def add_key(request: web.Request) -> web.Response:
    """Answers with the record and, this once, the key."""
    context = request.app[CONTEXT]
    body = await read_body(request, KeyBody)
    key, token = make_key(
        body.id,
        scope=body.scope,
        now=context.now(),
        learn=body.learn,
        requests_per_minute=body.requests_per_minute,
        tokens_per_day=body.tokens_per_day,
        sha256=body.sha256,
    )
    await context.keys.add(key)
    return web.json_response({**as_json(key), "key": token}, status=201)


async def revoke_key(request: web.Request) -> web.Response:
    return web.json_response(as_json(await request.app[CONTEXT].keys.revoke(request.match_info["id"])))


def as_json(key: ApiKey) -> Json:
    """Without the digest, which nobody needs to see."""
    return record_json(key, without=("sha256",))
