"""/admin/schedule: when passes are due, read and changed while the daemon runs; and how one is ended early."""

from typing import Literal, Self

from aiohttp import web
from pydantic import Field, ValidationError, model_validator

from agent.api.chat_schema import StrictModel
from agent.api.context import CONTEXT
from agent.api.errors import bad_request, not_found
from agent.api.json_body import describe, read_body
from agent.passes import Kind
from agent.schedules import KEYS


class ScheduleBody(StrictModel):
    kind: Literal["reflect", "update"] | None = None
    set: dict[str, str | int | bool] = Field(default_factory=dict, max_length=len(KEYS))
    """Keys of [reflection] or [updater] that say when it runs."""
    reset: list[str] = Field(default_factory=list, max_length=len(KEYS))
    """Keys that follow the configuration again."""
    paused: bool | None = None
    """True stops learning as a whole, false lets it go on."""

    @model_validator(mode="after")
    def _says_something_that_fits(self) -> Self:
        if self.kind is None and (self.set or self.reset):
            raise ValueError("kind must say whose schedule is meant: reflect or update")
        if self.kind is not None and not self.set and not self.reset:
            raise ValueError("give set or reset, with at least one key")
        if self.kind is None and self.paused is None:
            raise ValueError("give kind with set or reset, or paused")
        for key in (*self.set, *self.reset):
            if key not in KEYS:
                raise ValueError(f"{key!r} is no key of a schedule; there are {', '.join(KEYS)}")
        return self


async def show_schedule(request: web.Request) -> web.Response:
    return web.json_response(request.app[CONTEXT].schedules.show())


async def change_schedule(request: web.Request) -> web.Response:
    """Answers with the schedules in force afterwards; a change that means nothing changes nothing."""
    schedules = request.app[CONTEXT].schedules
    body = await read_body(request, ScheduleBody)
    if body.kind is not None:
        try:
            await schedules.change(body.kind, body.set, reset=body.reset)
        except ValidationError as error:
            raise describe(error, within="set") from None
    if body.paused is not None:
        await schedules.clock.pause(wanted=body.paused)
    return web.json_response(schedules.show())


async def abort_pass(request: web.Request) -> web.Response:
    """The pass or update that runs ends as failed; one that waits is forgotten."""
    context, run_id = request.app[CONTEXT], request.match_info["id"]
    progress = context.passes.find(run_id)
    if progress is None:
        raise not_found("No such pass runs or waits.")
    if not context.passes.abort(run_id):
        raise bad_request("It has not begun yet; try again.")
    kind = "update" if progress.kind is Kind.UPDATE else "reflection pass"
    return web.json_response({"id": run_id, "kind": kind, "aborted": True}, status=202)
