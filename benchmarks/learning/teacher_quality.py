"""Are the published version's answers any good? As likely, to the teacher that was told the wish, as its own.

The teacher is the frozen policy reading the question with the update's hint appended. It never sees the published
version; quality is its mean logprob per token, over the version's answers and over answers it samples itself.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from agent.demo.daemon_process import RunningDaemon
from agent.demo.driver import MAX_TOKENS, TEMPERATURE, DaemonClient, Record
from agent.demo.oracle import Answer
from benchmarks.common import bootstrap_interval
from benchmarks.learning.trained_policy import engine_of, policy_tokenizer
from memory.completions import CompletionRequest, InferenceClient
from memory.records import Message, SamplingParams
from memory.tokens import Tokenizer
from updater.objectives.hindsight import add_to_question

TEACHER = "base"
SEED = 900_000_000
OWN_DRAWS = 2
"""Answers that the teacher gives to the question of each audited answer."""
TOLERANCE_NATS = 0.02
"""Per token; below it the two count as equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Mean logprob per token under the told teacher, nats."""

    hint: str
    ours: float
    teachers_own: float
    low: float
    high: float
    """95 % interval of the paired difference, ours minus the teacher's own."""

    @property
    def not_below(self) -> bool:
        return self.high >= -TOLERANCE_NATS

    @property
    def line(self) -> str:
        bounds = f"[{self.low:+.3f}, {self.high:+.3f}]"
        return f"{self.ours:.3f} against {self.teachers_own:.3f} nats a token; difference {bounds}"


async def teacher_quality(
    daemon: RunningDaemon, client: DaemonClient, update: Record, answers: Sequence[Answer]
) -> Quality:
    hint = hint_of(update)
    tokenizer = policy_tokenizer(daemon.data_dir)
    prompts = [_told(tokenizer, answer.prompt, hint) for answer in answers]
    served = await asyncio.gather(*(_token_ids(client, answer) for answer in answers))
    async with engine_of(daemon) as engine:
        ours_scored = await asyncio.gather(*map(partial(_mean_logprob, engine), prompts, served))
        own_scored = await asyncio.gather(
            *(_own_logprob(engine, tokenizer, prompt, OWN_DRAWS * index) for index, prompt in enumerate(prompts))
        )
    low, high = bootstrap_interval([a - b for a, b in zip(ours_scored, own_scored, strict=True)])
    return Quality(hint=hint, ours=fmean(ours_scored), teachers_own=fmean(own_scored), low=low, high=high)


def hint_of(update: Record) -> str:
    """The wish that the update taught, from its own plan; of several the one that the teacher follows best."""
    hints = [row for row in json.loads(update["plan_json"])["hints"] if "hint" in row]
    return str(max(hints, key=lambda row: row["gap_nats"])["hint"])


def _told(tokenizer: Tokenizer, question: str, hint: str) -> tuple[int, ...]:
    return tokenizer.render_chat(add_to_question([Message(role="user", content=question)], hint))


async def _token_ids(client: DaemonClient, answer: Answer) -> tuple[int, ...]:
    """Exactly what was sampled for an audited answer, from the store."""
    row = await client.get(f"/admin/interactions/{answer.interaction_id}")
    return tuple(row["token_ids"])


async def _own_logprob(engine: InferenceClient, tokenizer: Tokenizer, prompt: tuple[int, ...], first: int) -> float:
    """Mean logprob per token of the teacher's own answers, by the draws that begin with number `first`."""
    own = await asyncio.gather(*(_ask(engine, tokenizer, prompt, first + draw) for draw in range(OWN_DRAWS)))
    return fmean([await _mean_logprob(engine, prompt, answer) for answer in own])


async def _ask(engine: InferenceClient, tokenizer: Tokenizer, prompt: tuple[int, ...], draw: int) -> tuple[int, ...]:
    request = CompletionRequest(
        model=TEACHER,
        prompt_token_ids=prompt,
        sampling=SamplingParams(temperature=TEMPERATURE, max_tokens=MAX_TOKENS, seed=SEED + draw),
        stop_token_ids=tokenizer.stop_token_ids,
    )
    return (await engine.complete(request)).token_ids


async def _mean_logprob(engine: InferenceClient, prompt: tuple[int, ...], completion: tuple[int, ...]) -> float:
    score = await engine.score(TEACHER, prompt + completion)
    return fmean(score.logprobs[len(prompt) - 1 :])
