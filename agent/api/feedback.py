"""POST /v1/feedback: what someone says of an answer, named by interaction, by response and choice, or by session."""

from typing import Self

from aiohttp import web
from pydantic import Field, model_validator

from agent.api.auth import caller_of, may_speak_for
from agent.api.chat_schema import StrictModel
from agent.api.context import CONTEXT, Context
from agent.api.errors import bad_request, not_found
from agent.api.json_body import read_body
from agent.turn import Caller
from memory.records import Feedback, Interaction, new_id

_MAX_TEXT = 16_384
"""Characters of a comment or a correction."""


class Metric(StrictModel):
    name: str = Field(min_length=1, max_length=64)
    value: float


class FeedbackBody(StrictModel):
    interaction_id: str | None = None
    response_id: str | None = None
    session_id: str | None = None
    index: int | None = Field(None, ge=-1024, le=1024)
    """Of the choice in the response (0 if absent), or of the turn in the session (the last if absent)."""
    score: float | None = Field(None, ge=-1, le=1)
    comment: str | None = Field(None, max_length=_MAX_TEXT)
    correction: str | None = Field(None, max_length=_MAX_TEXT)
    metric: Metric | None = None
    channel: str = Field("api", min_length=1, max_length=32)
    user: str | None = Field(None, max_length=256)

    @model_validator(mode="after")
    def _names_one_answer_and_says_something(self) -> Self:
        names = [self.interaction_id, self.response_id, self.session_id]
        if sum(name is not None for name in names) != 1:
            raise ValueError("give exactly one of interaction_id, response_id and session_id")
        if self.score is None and self.metric is None and not self.comment and not self.correction:
            raise ValueError("give a score, a comment, a correction or a metric")
        return self


async def add_feedback(request: web.Request) -> web.Response:
    """Durable when it is answered."""
    context = request.app[CONTEXT]
    body = await read_body(request, FeedbackBody)
    caller = caller_of(request, user=body.user)
    interaction = await _find(context, body, caller)
    row = Feedback(
        id=new_id("fb"),
        created_at=context.now(),
        principal=caller.principal if body.user else interaction.principal,
        interaction_id=interaction.id,
        score=body.score,
        comment=body.comment or None,
        correction=body.correction or None,
        metric_name=body.metric.name if body.metric else None,
        metric_value=body.metric.value if body.metric else None,
        channel=body.channel,
    )
    await context.store.feedback.add(row)
    context.metrics.feedback.inc()
    if row.correction is not None or (row.score is not None and row.score < 0):
        context.schedules.clock.count_negative()
    return web.json_response({"id": row.id, "interaction_id": interaction.id})


async def _find(context: Context, body: FeedbackBody, caller: Caller) -> Interaction:
    """The interaction that is meant. One that belongs to someone else does not exist for the caller."""
    interactions = context.store.interactions
    if body.interaction_id is not None:
        found = await interactions.get(body.interaction_id)
    elif body.response_id is not None:
        found = await interactions.choice(caller.principal, body.response_id, body.index or 0)
    else:
        found = await _turn_of_session(context, body, caller)
    if found is None or not may_speak_for(caller, found.principal):
        raise not_found("There is no such interaction.")
    return found


async def _turn_of_session(context: Context, body: FeedbackBody, caller: Caller) -> Interaction | None:
    assert body.session_id is not None
    turns = await context.store.interactions.session(caller.principal, body.session_id)
    index = -1 if body.index is None else body.index
    if turns and not -len(turns) <= index < len(turns):
        raise bad_request(f"The session has {len(turns)} turns.", param="index")
    return turns[index] if turns else None
