"""Targets under measurement: how far a model has come towards what its users asked, on given cases.

Two ways, by what the evidence is. With a hint: fresh answers, scored by the hindsight log-ratio under the frozen
teacher. With corrections: how likely the users' own corrections became.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory.states import Method
from updater.hints import ChosenHint, Judge, prompt_pairs, tokens_of
from updater.objectives.correction import correction_tokens
from updater.objectives.hindsight import student_prompt
from updater.plan import Case, Target
from updater.rollouts import Answer, mean
from updater.scorecard import Rung

MIN_SELECTION = 2
TOLD_TRIES = 6
"""Answers that the told teacher gives to each training question."""
TOLD_KEPT = 4
"""Of those, how many teach: the most obedient ones."""

ToldAnswers = dict[str, list[tuple[int, ...]]]
"""By interaction id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyTarget:
    """A target whose hint is chosen: ready to train and to measure."""

    target: Target
    hint: ChosenHint | None
    """None: its examples are corrections."""

    @property
    def rung(self) -> Rung:
        return Rung.HINDSIGHT if self.hint else Rung.CORRECTION

    @property
    def selection(self) -> tuple[Case, ...]:
        """What candidates are chosen on: cases kept from training; where all of them dissent, a few that were not."""
        return self.supporting(self.target.selection) or self.supporting(self.target.train)[:MIN_SELECTION]

    def supporting(self, cases: Sequence[Case]) -> tuple[Case, ...]:
        """Cases of the kind that is taught whose principal does not dissent."""
        if self.hint is None:
            return tuple(case for case in cases if case.example.method is Method.CORRECTION)
        return tuple(case for case in cases if case.example.principal not in self.hint.dissenting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Per prompt the score of one model, and the answers it gave (none where only likelihoods were asked)."""

    scores: tuple[float, ...]
    answers: tuple[tuple[Answer, ...], ...] = ()


async def measure_progress(
    judge: Judge, ready: ReadyTarget, cases: Sequence[Case], *, model: str, num_samples: int
) -> Progress:
    """(prompts,) scores in nats; higher is nearer to what was asked."""
    plain = [student_prompt(judge.tokenizer, case.interaction) for case in cases]
    if ready.hint is None:
        pairs = [
            (prompt, correction_tokens(judge.tokenizer, case.example.correction or ""))
            for prompt, case in zip(plain, cases, strict=True)
        ]
        return Progress(scores=tuple(await judge.scorer.log_probabilities(model, pairs)))
    answers = await judge.sample(model, plain, num_samples=num_samples)
    prompts = prompt_pairs(judge, cases, ready.hint.text)
    ratios = await judge.scorer.hindsight_log_ratios(ready.hint.model, prompts, tokens_of(answers))
    return Progress(scores=tuple(mean(row) for row in ratios), answers=tuple(tuple(row) for row in answers))


async def ask_teacher(
    judge: Judge, ready: ReadyTarget, cases: Sequence[Case], *, num_samples: int
) -> list[list[Answer]]:
    """(cases, samples) answers of the frozen teacher when told; nothing where corrections are taught."""
    if ready.hint is None or not cases:
        return []
    hinted = [prompt for _, prompt in prompt_pairs(judge, cases, ready.hint.text)]
    return await judge.sample(ready.hint.model, hinted, num_samples=num_samples)


async def best_told_answers(judge: Judge, ready: ReadyTarget, cases: Sequence[Case]) -> ToldAnswers:
    """Per case the told teacher's answers that obey best.

    A small model that is told obeys most of the time, and a student copies the rest as well. So it is shown the best
    of a few tries (rejection sampling, as in STaR, arXiv 2203.14465, with the users' words as the judge).
    """
    if ready.hint is None or not cases:
        return {}
    answers = await ask_teacher(judge, ready, cases, num_samples=TOLD_TRIES)
    prompts = prompt_pairs(judge, cases, ready.hint.text)
    ratios = await judge.scorer.hindsight_log_ratios(ready.hint.model, prompts, tokens_of(answers))
    return {
        case.interaction.id: most_obedient(given, row, count=TOLD_KEPT)
        for case, given, row in zip(cases, answers, ratios, strict=True)
    }


def most_obedient(answers: Sequence[Answer], ratios_nats: Sequence[float], *, count: int) -> list[tuple[int, ...]]:
    """The `count` answers with the largest R per token, the largest first; the same answer counts once.

    Per token, because R of a whole answer grows with its length and hardly tells which of two obeyed (EXPERIMENTS.md).
    """
    obedience = [nats / max(1, len(answer.token_ids)) for answer, nats in zip(answers, ratios_nats, strict=True)]
    ranked = sorted(zip(obedience, answers, strict=True), key=lambda pair: pair[0], reverse=True)
    return list(dict.fromkeys(answer.token_ids for _, answer in ranked))[:count]


async def teacher_progress(judge: Judge, ready: ReadyTarget, cases: Sequence[Case], *, num_samples: int) -> Progress:
    """What the teacher itself scores when told: the far end of the way. For corrections: certainty."""
    if ready.hint is None:
        return Progress(scores=tuple(0.0 for _ in cases))
    answers = await ask_teacher(judge, ready, cases, num_samples=num_samples)
    prompts = prompt_pairs(judge, cases, ready.hint.text)
    ratios = await judge.scorer.hindsight_log_ratios(ready.hint.model, prompts, tokens_of(answers))
    return Progress(scores=tuple(mean(row) for row in ratios), answers=tuple(tuple(row) for row in answers))
