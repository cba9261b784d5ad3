"""From a prompt to text that may be sent: one choice, sampled by the engine, decoded, cut at stop strings.

An engine that dies meanwhile is restarted by the supervisor; sampling then goes on from the tokens that are there. With
our engine the result is the same as without the interruption, because its draws are keyed by seed and position.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import structlog

from agent.choice_text import ChoiceText
from agent.turn import Choice, TokenLogprob, Turn
from memory.completions import CompletionChunk, CompletionRequest, EngineUnavailable, InferenceClient, InferenceError
from memory.states import Cause, FinishReason
from memory.tokens import Tokenizer

log = structlog.get_logger(__name__)

_MAX_RESUMES = 2
_RESUME_DELAY_S = 0.5
"""Broken connections are seen before the supervisor sees that the engine has gone."""
_RESUME_WAIT_S = 90.0
"""How long a stream waits for a restarted engine: loading a model and its adapters."""

WaitReady = Callable[[float], Awaitable[None]]
"""Waits, at most so many seconds, until the engine can be used. Raises TimeoutError."""


class Generator:
    """Samples choices. It knows the engine and the tokenizer, not who asked or what is stored."""

    def __init__(self, *, engine: InferenceClient, tokenizer: Tokenizer, wait_ready: WaitReady) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._wait_ready = wait_ready

    async def sample(self, turn: Turn, choice: Choice) -> None:
        """Fill one choice and send its deltas. A failure of the engine is noted in the choice, not raised."""
        request = CompletionRequest(
            model=turn.served.engine_model,
            prompt_token_ids=turn.prompt.token_ids,
            sampling=choice.sampling,
            stop_token_ids=self._tokenizer.stop_token_ids,
            top_logprobs=turn.chat.top_logprobs,
        )
        try:
            await self._follow(turn, choice, request)
        except InferenceError as error:
            choice.error = error
            choice.cause = Cause.INFRASTRUCTURE
            choice.finish_reason = FinishReason.ERROR
            log.warning("sampling failed", interaction_id=choice.id, error=str(error))

    async def _follow(self, turn: Turn, choice: Choice, request: CompletionRequest) -> None:
        text = ChoiceText(self._tokenizer, choice.sampling.stop, choice_index=choice.index)
        async with aclosing(self._resumed(request)) as chunks:
            async for chunk in chunks:
                if choice.ttft_s is None:
                    choice.ttft_s = time.monotonic() - turn.admitted_at_s
                tokens = token_logprobs(chunk)
                choice.tokens += tokens
                text.push(tokens)
                choice.finish_reason = FinishReason.STOP if text.stopped else chunk.finish_reason
                if choice.finish_reason is not None:
                    break
                turn.send(text.take())
        if not text.stopped:
            text.finish()
        choice.num_unsent = text.num_past_stop
        turn.send(text.take(final=True))

    async def _resumed(self, request: CompletionRequest) -> AsyncGenerator[CompletionChunk, None]:
        """Chunks up to the end, over restarts of the engine. Raises InferenceError when there is no end to be had."""
        sampled: list[int] = []
        for num_resumes in range(_MAX_RESUMES + 1):
            if len(sampled) == request.sampling.max_tokens:  # it died between the last token and saying so
                yield CompletionChunk(token_ids=(), logprobs=(), finish_reason=FinishReason.LENGTH)
                return
            interruption: EngineUnavailable | None = None
            async with aclosing(self._engine.stream(continue_request(request, sampled))) as chunks:
                while (chunk := await _next_chunk(chunks)) is not None:
                    if isinstance(chunk, EngineUnavailable):
                        interruption = chunk
                        break
                    sampled += chunk.token_ids
                    yield chunk
            if interruption is None:
                return
            await self._await_engine(interruption, last=num_resumes == _MAX_RESUMES)

    async def _await_engine(self, interruption: EngineUnavailable, *, last: bool) -> None:
        """Return once it makes sense to go on; raise the interruption where it does not."""
        log.warning("stream interrupted", error=str(interruption))
        if last:
            raise interruption
        await asyncio.sleep(_RESUME_DELAY_S)
        try:
            await self._wait_ready(_RESUME_WAIT_S)
        except TimeoutError:
            raise interruption from None


async def _next_chunk(chunks: AsyncGenerator[CompletionChunk, None]) -> CompletionChunk | EngineUnavailable | None:
    """The next chunk, the interruption that came instead, or None at the end."""
    try:
        return await anext(chunks, None)
    except EngineUnavailable as interruption:
        return interruption


def continue_request(request: CompletionRequest, sampled: list[int]) -> CompletionRequest:
    """The same request after `sampled` tokens: they move to the prompt, and fewer are left to sample."""
    sampling = replace(request.sampling, max_tokens=request.sampling.max_tokens - len(sampled))
    return replace(request, prompt_token_ids=(*request.prompt_token_ids, *sampled), sampling=sampling)


def token_logprobs(chunk: CompletionChunk) -> list[TokenLogprob]:
    """One entry per token of a chunk."""
    tops = chunk.top_logprobs or ((),) * len(chunk.token_ids)
    return [
        TokenLogprob(token_id=token_id, logprob=logprob, top=top)
        for token_id, logprob, top in zip(chunk.token_ids, chunk.logprobs, tops, strict=True)
    ]
