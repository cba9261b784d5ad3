"""One request inside the engine: its tokens so far, what is cached of them, and what it still wants.

A sequence that samples and a sequence that is only scored are the same thing: tokens go through the cache in
chunks; once all are through, a sampling sequence gains a token and goes on, a scored one has ended.
"""

from dataclasses import dataclass, field

from agent.inference.lora import Adapter
from memory.completions import PromptScore, TopLogprobs
from memory.records import SamplingParams
from memory.states import FinishReason


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """State of one request between steps; owned by the engine's thread once added."""

    id: str
    prompt: tuple[int, ...]
    sampling: SamplingParams
    adapter: Adapter | None = None
    stop_token_ids: frozenset[int] = frozenset()
    num_top_logprobs: int = 0
    num_prompt_logprobs: int | None = None
    """None: the prompt is not scored; 0: its own tokens only; N: and N alternatives each."""
    priority: int = 0

    tokens: list[int] = field(init=False)
    """Prompt and sampled tokens."""
    num_cached: int = field(init=False, default=0)
    """Tokens whose keys and values are in the slot."""
    slot: int | None = field(init=False, default=None)
    prompt_logprobs: list[float] = field(init=False, default_factory=list)
    prompt_top: list[TopLogprobs] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt)

    @property
    def num_reserved(self) -> int:
        """Tokens it can come to hold."""
        return len(self.prompt) + self.sampling.max_tokens

    @property
    def num_pending(self) -> int:
        """Tokens that have to go through the model before anything can be sampled."""
        return len(self.tokens) - self.num_cached

    @property
    def output_ids(self) -> list[int]:
        return self.tokens[len(self.prompt) :]

    @property
    def is_sampling(self) -> bool:
        return self.sampling.max_tokens > 0

    @property
    def prompt_score(self) -> PromptScore | None:
        """What was scored, once the prompt is through; None where nobody asked."""
        if self.num_prompt_logprobs is None:
            return None
        top = tuple(self.prompt_top) if self.num_prompt_logprobs else ()
        return PromptScore(logprobs=tuple(self.prompt_logprobs), top=top)

    def append(self, token_id: int) -> FinishReason | None:
        """Take a sampled token; says whether that ends the sequence."""
        self.tokens.append(token_id)
        if token_id in self.stop_token_ids:
            return FinishReason.STOP
        return FinishReason.LENGTH if len(self.tokens) == self.num_reserved else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceEvent:
    """What one step did to one sequence, for whoever waits for it."""

    sequence_id: str
    token_id: int | None = None
    logprob: float | None = None
    top: TopLogprobs = ()
    prompt: PromptScore | None = None
    """With the first event, where asked for."""
    finish_reason: FinishReason | None = None
