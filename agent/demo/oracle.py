"""What "short" means and how an audit is summed up. Used by the demonstration and the benchmarks only.

Reflection, updater and gate cannot import this: imports point left, and a test says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from reflection.support import wilson

SHORT_MAX_TOKENS = 40
"""An answer is short when it ends by itself within so many sampled tokens, its end-of-turn token included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One audited answer."""

    prompt: str
    text: str
    num_tokens: int
    """Sampled tokens, the end-of-turn token included when it was sampled."""
    ended: bool
    """It ended by itself, rather than at the token limit."""
    model: str
    """The version that served it."""
    interaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """An audit of one kind of request under one version."""

    num_answers: int
    num_short: int
    mean_tokens: float
    ended_share: float

    @property
    def short_share(self) -> float:
        return self.num_short / self.num_answers

    @property
    def short_bounds(self) -> tuple[float, float]:
        return wilson(self.num_short, self.num_answers)


def is_short(answer: Answer) -> bool:
    return answer.ended and answer.num_tokens <= SHORT_MAX_TOKENS


def summarise(answers: Sequence[Answer]) -> Summary:
    if not answers:
        raise ValueError("nothing was audited")
    return Summary(
        num_answers=len(answers),
        num_short=sum(is_short(answer) for answer in answers),
        mean_tokens=fmean(answer.num_tokens for answer in answers),
        ended_share=fmean(answer.ended for answer in answers),
    )
