"""An engine without a model: it says what it was told to say, token by token, and can be away, slow or broken.

Satisfies memory.completions.InferenceClient. Tested itself by tests/test_fakes.py.
"""

import asyncio
from collections.abc import AsyncGenerator

from memory.completions import (
    AdapterRejected,
    Completion,
    CompletionChunk,
    CompletionRequest,
    EngineUnavailable,
    InferenceError,
    PromptScore,
)
from memory.states import FinishReason
from memory.tokens import Tokenizer

LOGPROB = -0.5
"""Of every token."""


class FakeEngine:
    """Answers every prompt with `says`, ends with the stop token, and keeps what it was asked."""

    def __init__(self, tokenizer: Tokenizer, says: str = "A slow river of ice.") -> None:
        self.says = says
        self.requests: list[CompletionRequest] = []
        self.resident: list[str] = ["base"]
        self.loads: list[str] = []
        """Every name that was loaded, in order."""
        self.num_aborted = 0
        self.may_go_on = asyncio.Event()
        """Cleared: sampling stands still before the next token."""
        self.may_go_on.set()
        self.was_asked = asyncio.Event()
        self.break_after: int | None = None
        """The next stream breaks after so many tokens, as if the process had died."""
        self.refuses: str | None = None
        """Why every completion is refused."""
        self.rejects: set[str] = set()
        """Adapter names that it will not load."""
        self.is_away = False
        self._tokenizer = tokenizer

    async def stream(self, request: CompletionRequest) -> AsyncGenerator[CompletionChunk, None]:
        self._check(request.model)
        self.requests.append(request)
        self.was_asked.set()
        breaking, self.break_after = self.break_after, None
        token_ids = self._remaining(request)
        is_over = False
        try:
            for count, token_id in enumerate(token_ids, start=1):
                if breaking is not None and count > breaking:
                    is_over = True
                    raise EngineUnavailable("the engine is gone")
                await self.may_go_on.wait()
                await asyncio.sleep(0)
                is_over = count == len(token_ids)
                yield self._chunk(token_id, request, is_last=is_over)
        finally:
            self.num_aborted += not is_over

    async def complete(self, request: CompletionRequest) -> Completion:
        chunks = [chunk async for chunk in self.stream(request)]
        token_ids = tuple(token_id for chunk in chunks for token_id in chunk.token_ids)
        assert chunks[-1].finish_reason is not None
        return Completion(
            token_ids=token_ids, logprobs=(LOGPROB,) * len(token_ids), finish_reason=chunks[-1].finish_reason
        )

    async def score(self, model: str, token_ids: tuple[int, ...], *, top: int = 0, priority: int = 20) -> PromptScore:
        self._check(model)
        return PromptScore(logprobs=(LOGPROB,) * (len(token_ids) - 1))

    async def load_adapter(self, name: str, path: str) -> None:
        self._check("base")
        if name in self.rejects or name in self.resident:
            raise AdapterRejected(f"{name} is refused")
        self.resident.append(name)
        self.loads.append(name)

    async def unload_adapter(self, name: str) -> None:
        self._check(name)
        self.resident.remove(name)

    async def list_models(self) -> tuple[str, ...]:
        return tuple(self.resident)

    def _check(self, model: str) -> None:
        if self.is_away:
            raise EngineUnavailable("the engine is away")
        if self.refuses is not None:
            raise InferenceError(self.refuses)
        if model not in self.resident:
            raise InferenceError(f"no model {model}")

    def _remaining(self, request: CompletionRequest) -> list[int]:
        """What is left to say: a prompt that already ends with a part of the answer is continued."""
        whole = [*self._tokenizer.encode(self.says), self._tokenizer.stop_token_ids[0]]
        said = next(
            count
            for count in range(len(whole), -1, -1)
            if request.prompt_token_ids[-count or None :] == tuple(whole[:count]) or not count
        )
        return whole[said:][: request.sampling.max_tokens]

    def _chunk(self, token_id: int, request: CompletionRequest, *, is_last: bool) -> CompletionChunk:
        reason = None
        if token_id in request.stop_token_ids:
            reason = FinishReason.STOP
        elif is_last:
            reason = FinishReason.LENGTH
        top = ((token_id, LOGPROB),) * request.top_logprobs
        return CompletionChunk(
            token_ids=(token_id,),
            logprobs=(LOGPROB,),
            top_logprobs=(top,) if request.top_logprobs else (),
            finish_reason=reason,
        )
