"""Rollouts for the updater: sample fresh answers and score given ones, on the engine, behind live traffic."""

import asyncio
import zlib
from array import array
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from memory.completions import CompletionRequest, InferenceClient
from memory.records import SamplingParams

T = TypeVar("T")

PRIORITY = 20
"""Judging and gate come after live traffic (0) and practice (10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One fresh completion of one prompt."""

    token_ids: tuple[int, ...]
    ended: bool
    """It ended by itself rather than at the token limit."""
    log_probability: float
    """Sum over its tokens in nats, as the model that gave it saw them."""


async def sample_answers(
    engine: InferenceClient,
    model: str,
    prompt: tuple[int, ...],
    *,
    sampling: SamplingParams,
    stop_token_ids: tuple[int, ...],
    numbers: Sequence[int],
) -> list[Answer]:
    """One answer a number. The seed depends on prompt and number only, so two models see coupled draws."""

    async def answer(number: int) -> Answer:
        request = CompletionRequest(
            model=model,
            prompt_token_ids=prompt,
            sampling=replace(sampling, seed=seed_of(prompt, number, sampling.seed), stop=()),
            stop_token_ids=stop_token_ids,
            priority=PRIORITY,
        )
        completion = await engine.complete(request)
        return Answer(
            token_ids=completion.token_ids,
            ended=bool(completion.token_ids) and completion.token_ids[-1] in stop_token_ids,
            log_probability=float(sum(completion.logprobs)),
        )

    return await all_of([answer(number) for number in numbers])


def seed_of(prompt: tuple[int, ...], number: int, seed: int) -> int:
    """In [0, 2**31): the same draw for the same prompt, whoever asks."""
    return (zlib.crc32(array("q", prompt).tobytes()) + 7919 * number + seed) % 2**31


class Scorer:
    """Log-probabilities of whole completions, each (model, prompt, completion) asked of the engine only once."""

    def __init__(self, engine: InferenceClient) -> None:
        self._engine = engine
        self._known: dict[tuple[str, tuple[int, ...], tuple[int, ...]], float] = {}

    def remember(self, model: str, prompts: Sequence[tuple[int, ...]], answers: Sequence[Sequence[Answer]]) -> None:
        """Sampling told already how probable these answers were: under their own model and prompt."""
        for prompt, given in zip(prompts, answers, strict=True):
            for answer in given:
                self._known[(model, prompt, answer.token_ids)] = answer.log_probability

    async def log_probabilities(
        self, model: str, pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    ) -> list[float]:
        """Per (prompt, completion) pair the sum of natural-log probabilities of the completion's tokens."""
        new = [pair for pair in dict.fromkeys(pairs) if (model, *pair) not in self._known]
        scores = await all_of([self._score(model, prompt, completion) for prompt, completion in new])
        for pair, score in zip(new, scores, strict=True):
            self._known[(model, *pair)] = score
        return [self._known[(model, *pair)] for pair in pairs]

    async def hindsight_log_ratios(
        self,
        model: str,
        prompts: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
        answers: Sequence[Sequence[tuple[int, ...]]],
    ) -> list[list[float]]:
        """R(y) = log pi(y | x, hint) - log pi(y | x) in nats under one frozen model: (prompts, samples).

        `prompts` are (plain, hinted) pairs. Label-free and graded: an answer that obeys the hint scores above zero,
        one that ignores it below (SDPO from user follow-ups, arXiv 2603.12273).
        """
        flat = [(row, answer) for row, given in enumerate(answers) for answer in given]
        hinted = await self.log_probabilities(model, [(prompts[row][1], answer) for row, answer in flat])
        plain = await self.log_probabilities(model, [(prompts[row][0], answer) for row, answer in flat])
        ratios: list[list[float]] = [[] for _ in answers]
        for (row, _), told, untold in zip(flat, hinted, plain, strict=True):
            ratios[row].append(told - untold)
        return ratios

    async def _score(self, model: str, prompt: tuple[int, ...], completion: tuple[int, ...]) -> float:
        scored = await self._engine.score(model, prompt + completion, priority=PRIORITY)
        return float(sum(scored.logprobs[len(prompt) - 1 :]))


async def all_of(asked: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """Ask all at once; the first failure ends the others and is raised as it is, since callers catch it by its name."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in asked]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
