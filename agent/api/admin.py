"""/admin: what the command line shows and asks for. Lists come as {"data": [...]}, single records as themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from aiohttp import web
from pydantic import Field

from agent.api.chat_schema import StrictModel
from agent.api.context import CONTEXT
from agent.api.errors import bad_request, not_found
from agent.api.json_body import read_body
from agent.api.records_json import Json, record_json
from agent.passes import Kind, Progress
from agent.why import explain
from memory.records import ReflectionPass, Update
from memory.states import PassStatus, UpdateStatus

_MAX_LIMIT = 1000
_LONG_FIELDS = ("prompt_token_ids", "token_ids", "logprobs")
"""Left out of lists of interactions."""
_MANUAL = "manual"


class RollbackBody(StrictModel):
    to: int = Field(ge=0)
    """N of the policy@vN whose bytes are to be live again."""


async def status(request: web.Request) -> web.Response:
    return web.json_response(await request.app[CONTEXT].read_status())


async def start_reflect(request: web.Request) -> web.Response:
    return web.json_response({"pass_id": request.app[CONTEXT].passes.request_reflect(_MANUAL)}, status=202)


async def list_passes(request: web.Request) -> web.Response:
    return _data(await request.app[CONTEXT].store.judgements.passes(limit=_limit(request)))


async def get_pass(request: web.Request) -> web.Response:
    """A pass that waits for its turn is shown as running, at the stage `queued`."""
    context, pass_id = request.app[CONTEXT], request.match_info["id"]
    progress = context.passes.find(pass_id)
    record = await context.store.judgements.get_pass(pass_id)
    if record is None and progress is not None and progress.kind is Kind.REFLECT:
        record = ReflectionPass(id=pass_id, trigger=progress.trigger, started_at=progress.asked_at)
    if record is None:
        raise not_found("There is no such pass.")
    return web.json_response(
        _with_progress(record_json(record), progress if record.status is PassStatus.RUNNING else None)
    )


async def list_reflections(request: web.Request) -> web.Response:
    rows = await request.app[CONTEXT].store.judgements.reflections(
        pass_id=request.query.get("pass"), cluster_id=request.query.get("cluster"), limit=_limit(request)
    )
    return _data(rows)


async def list_clusters(request: web.Request) -> web.Response:
    return _data(await request.app[CONTEXT].store.judgements.clusters(), without=("centroid",))


async def start_update(request: web.Request) -> web.Response:
    return web.json_response({"update_id": request.app[CONTEXT].passes.request_update(_MANUAL)}, status=202)


async def list_updates(request: web.Request) -> web.Response:
    return _data(await request.app[CONTEXT].store.updates.list(limit=_limit(request)))


async def get_update(request: web.Request) -> web.Response:
    """An update that waits for its turn is shown as running, at the stage `queued`."""
    context, update_id = request.app[CONTEXT], request.match_info["id"]
    progress = context.passes.find(update_id)
    record = await context.store.updates.get(update_id)
    if record is None and progress is not None and progress.kind is Kind.UPDATE:
        parent = context.policy.live.number
        record = Update(id=update_id, trigger=progress.trigger, started_at=progress.asked_at, parent_version=parent)
    if record is None:
        raise not_found("There is no such update.")
    shown = _with_progress(record_json(record), progress if record.status is UpdateStatus.RUNNING else None)
    uses = await context.store.updates.uses_in(update_id)
    return web.json_response({**shown, "uses": [record_json(use) for use in uses]})


async def list_versions(request: web.Request) -> web.Response:
    """Every version with whether it is live: after a change of the base model, other lineages are history."""
    context = request.app[CONTEXT]
    live = context.policy.live.number
    versions = await context.store.updates.versions()
    shown = [{**record_json(version), "name": version.name, "live": version.number == live} for version in versions]
    return web.json_response({"data": shown})


async def roll_back(request: web.Request) -> web.Response:
    """The bytes of an old version go live under a new number."""
    context = request.app[CONTEXT]
    body = await read_body(request, RollbackBody)
    if body.to not in [version.number for version in await context.policy.offered()]:
        raise not_found(f"There is no policy@v{body.to} on this base model.")
    version = await context.roll_back(body.to)
    return web.json_response({**record_json(version), "name": version.name})


async def list_interactions(request: web.Request) -> web.Response:
    return _data(await request.app[CONTEXT].store.interactions.recent(_limit(request)), without=_LONG_FIELDS)


async def get_interaction(request: web.Request) -> web.Response:
    found = await request.app[CONTEXT].store.interactions.get(request.match_info["id"])
    if found is None:
        raise not_found("There is no such interaction.")
    return web.json_response(record_json(found))


async def why(request: web.Request) -> web.Response:
    found = await explain(request.app[CONTEXT].store, request.match_info["id"])
    if found is None:
        raise not_found("There is no such interaction.")
    shortened = replace(found, cluster=replace(found.cluster, centroid=())) if found.cluster else found
    return web.json_response({"answer": found.answer, **record_json(shortened)})


def _data(records: Sequence[object], *, without: Iterable[str] = ()) -> web.Response:
    return web.json_response({"data": [record_json(record, without=without) for record in records]})


def _with_progress(shown: Json, progress: Progress | None) -> Json:
    if progress is None:
        return shown
    return {**shown, "stage": progress.stage, "done": progress.done, "total": progress.total}


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", "20")
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_LIMIT:
        raise bad_request(f"limit must be a number from 1 to {_MAX_LIMIT}.", param="limit")
    return int(text)
