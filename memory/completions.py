"""What is asked of an engine and what it gives back, in token ids. The wire form is vLLM's (agent/inference)."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from memory.records import SamplingParams
from memory.states import FinishReason

TopLogprobs = tuple[tuple[int, float], ...]
"""(token id, logprob) pairs of one position, most probable first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One prompt for one resident model name."""

    model: str
    """`base`, `policy@vN`, or a candidate's own name."""
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    stop_token_ids: tuple[int, ...] = ()
    top_logprobs: int = 0
    """How many alternatives to report per sampled token, at most 20."""
    priority: int = 0
    """Lower is served first: 0 live, 10 practice, 20 judging and gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionChunk:
    """Tokens that were sampled since the last chunk."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    top_logprobs: tuple[TopLogprobs, ...] = ()
    """Per token; empty unless asked for."""
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    token_ids: tuple[int, ...]
    """Sampled ids, a sampled stop id included."""
    logprobs: tuple[float, ...]
    """Raw logprobs (temperature 1, unmasked), natural log."""
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScore:
    """Raw logprobs of given tokens under a model: the first token has none."""

    logprobs: tuple[float, ...]
    """(T - 1,) log p(token[t] | token[<t]) for t = 1 .. T-1."""
    top: tuple[TopLogprobs, ...] = ()
    """(T - 1) rows; empty unless asked for."""


class InferenceError(RuntimeError):
    """The engine refused or failed a request."""


class EngineUnavailable(InferenceError):
    """The engine cannot be reached (starting, restarting or gone)."""


class AdapterRejected(InferenceError):
    """The engine would not load an adapter; the message says why."""


class InferenceClient(Protocol):
    """The engine as reflection, updater and agent see it."""

    def stream(self, request: CompletionRequest) -> AsyncGenerator[CompletionChunk, None]:
        """Sample; closing the generator aborts the request in the engine."""
        ...

    async def complete(self, request: CompletionRequest) -> Completion:
        """Sample to the end."""
        ...

    async def score(self, model: str, token_ids: tuple[int, ...], *, top: int = 0, priority: int = 20) -> PromptScore:
        """`prompt_logprobs` of `token_ids` under `model`."""
        ...

    async def load_adapter(self, name: str, path: str) -> None:
        """Make `name` resident from a PEFT directory. Raises AdapterRejected."""
        ...

    async def unload_adapter(self, name: str) -> None:
        """Forget `name` once nothing in flight uses it."""
        ...

    async def list_models(self) -> tuple[str, ...]:
        """Names that are resident, `base` first."""
        ...
