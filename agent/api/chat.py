"""POST /v1/chat/completions, streamed and not. Reads the request, follows the turn, and writes what clients rely on."""

from aiohttp import web

from agent.api.auth import caller_of, require_quota
from agent.api.chat_format import chunk, finishing_chunk, usage_chunk, whole_completion
from agent.api.chat_schema import ChatBody
from agent.api.context import CONTEXT, REQUEST_ID, Context
from agent.api.errors import unavailable
from agent.api.json_body import read_body
from agent.api.sse import KEEP_ALIVE_S, STREAM, EventStream
from agent.publishing import BASE
from agent.turn import TokenLogprob, Turn
from memory.states import Cause

MAX_IN_FLIGHT = 256
"""Chats; more are told to come back."""


async def complete_chat(request: web.Request) -> web.StreamResponse:
    """Admit the chat, then answer in the form that was asked for."""
    context = request.app[CONTEXT]
    body = await read_body(request, ChatBody)
    caller = caller_of(request, user=body.speaker)
    _admit(context)
    require_quota(request, context.keys)
    turn = await context.responder.respond(body.to_chat(request, caller, context.sampling_defaults))
    try:
        if body.stream:
            include_usage = body.stream_options is not None and body.stream_options.include_usage
            return await _stream(request, turn, with_logprobs=bool(body.logprobs), include_usage=include_usage)
        return await _whole(context, turn, with_logprobs=bool(body.logprobs))
    finally:
        turn.abandon(Cause.CLIENT, "the client left")  # nothing to a turn that has ended


def headers_of(turn: Turn) -> dict[str, str]:
    """What answered, and under which names it can be found again."""
    return {
        "X-Interaction-Id": ",".join(choice.id for choice in turn.choices),
        "X-Session-Id": turn.session.id,
        "X-Policy-Version": BASE if turn.served.shown_as == BASE else turn.served.version.name,
    }


async def _whole(context: Context, turn: Turn, *, with_logprobs: bool) -> web.Response:
    tokens: dict[int, list[TokenLogprob]] = {choice.index: [] for choice in turn.choices}
    async for delta in turn.deltas():
        if delta is not None:
            tokens[delta.choice_index] += delta.tokens
    failed = next((choice.error for choice in turn.choices if choice.error is not None), None)
    if failed is not None:
        raise failed
    if turn.ended_by is not None:
        raise unavailable(turn.ended_by[1], code="draining")
    body = whole_completion(turn, tokens if with_logprobs else None, context.tokenizer)
    return web.json_response(body, headers=headers_of(turn))


async def _stream(request: web.Request, turn: Turn, *, with_logprobs: bool, include_usage: bool) -> web.StreamResponse:
    tokenizer = request.app[CONTEXT].tokenizer if with_logprobs else None
    stream = EventStream({**headers_of(turn), "X-Request-Id": request[REQUEST_ID]})
    await stream.open(request)
    request[STREAM] = stream
    for choice in turn.choices:
        await stream.send(chunk(turn, choice.index, {"role": "assistant", "content": ""}))
    async for delta in turn.deltas(pause_s=KEEP_ALIVE_S):
        if delta is None:
            await stream.keep_alive()
        else:
            await stream.send(chunk(turn, delta.choice_index, {"content": delta.text}, delta.tokens, tokenizer))
    await _finish(stream, turn, include_usage=include_usage)
    await stream.close()
    return stream.response


async def _finish(stream: EventStream, turn: Turn, *, include_usage: bool) -> None:
    """The end of every choice. The turn is durable by now. Raises what kept a choice from ending well."""
    for choice in turn.choices:
        if choice.error is not None:
            raise choice.error
        if choice.finish_reason is None:
            raise unavailable(turn.ended_by[1] if turn.ended_by else "the answer was cut short", code="draining")
        await stream.send(finishing_chunk(turn, choice))
    if include_usage:
        await stream.send(usage_chunk(turn))


def _admit(context: Context) -> None:
    """Raises ApiError 503 where no chat is admitted now."""
    if context.phase.not_ready is not None:
        raise unavailable(f"The daemon is not ready: {context.phase.not_ready}.", code=context.phase.not_ready)
    if context.responder.num_in_flight >= MAX_IN_FLIGHT:
        raise unavailable("Too many chats at once.", code="overloaded")
