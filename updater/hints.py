"""Which of the users' own words become a cluster's hint, whether the policy complies when told, and who disagrees.

Three questions, asked of the engine before any training: which wording moves the frozen teacher most on the answers
that were complained of; does the teacher, told so, answer differently from the live version (no gap, no training);
and whose own words would rather have the old answers (their examples are left out as contrary).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memory.completions import InferenceClient
from memory.records import SamplingParams
from memory.tokens import Tokenizer
from updater.objectives.hindsight import hinted_prompt, student_prompt
from updater.plan import Case, Target
from updater.rollouts import Answer, Scorer, mean, sample_answers

MAX_HINTS = 8
"""Wordings compared: at most one per principal, the most frequent first."""
NUM_PROBES = 4
"""Answers that each wording is tried on."""
MIN_GAP_NATS = 4.0
"""Least mean difference in R between the teacher's own answers and the live version's: below it the policy does not do
what it is told, so there is nothing to distil (seen: about 25 for a wish it follows, under 2 for one it ignores)."""
TEACHER_SAMPLES = 2
NUM_CONTRARY_PROBES = 3
"""One told and one untold answer to each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenHint:
    """A cluster's hint and what was measured of it."""

    text: str
    model: str
    """The teacher: the live version's name, or `base` where only the base complies."""
    effect_nats: float
    """Mean fall in the log-probability of the complained-of answers when the teacher reads the hint."""
    gap_nats: float
    """R(teacher's answers) - R(live answers): what there is to learn."""
    alternatives: tuple[tuple[str, float], ...]
    """(wording, effect in nats) of all that were compared."""
    contrary: frozenset[str]
    """Principals whose own words prefer the answers that were complained of by the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What asking the engine needs."""

    engine: InferenceClient
    scorer: Scorer
    tokenizer: Tokenizer
    sampling: SamplingParams


def favourite_wordings(cases: Sequence[Case]) -> dict[str, set[str]]:
    """Each principal's most frequent wording, with all principals who share it."""
    by_principal: dict[str, Counter[str]] = {}
    for case in cases:
        if case.example.hint:
            by_principal.setdefault(case.example.principal, Counter())[case.example.hint] += 1
    wordings: dict[str, set[str]] = {}
    for principal, words in by_principal.items():
        wordings.setdefault(words.most_common(1)[0][0], set()).add(principal)
    return wordings


def candidate_hints(cases: Sequence[Case]) -> list[str]:
    """Distinct wordings, most shared first."""
    wordings = favourite_wordings(cases)
    return sorted(wordings, key=lambda words: -len(wordings[words]))[:MAX_HINTS]


async def choose_hint(judge: Judge, target: Target, *, live: str) -> ChosenHint | None:
    """The cluster's hint, or None when no wording moves the policy enough to be learnt from."""
    hints = candidate_hints(target.hinted)
    probes = target.hinted[:NUM_PROBES]
    effects = {hint: await effect_of(judge, probes, hint, model=live) for hint in hints}
    ranked = sorted(hints, key=lambda hint: effects[hint], reverse=True)
    for model in dict.fromkeys((live, "base")):
        for hint in ranked[:2]:
            told, untold, gap = await measure_gap(judge, probes, hint, teacher=model, live=live)
            if gap >= MIN_GAP_NATS:
                contrary = await contrary_principals(judge, target.hinted, probes, told, untold, model=model)
                return ChosenHint(
                    text=hint,
                    model=model,
                    effect_nats=effects[hint],
                    gap_nats=gap,
                    alternatives=tuple((words, effects[words]) for words in ranked),
                    contrary=contrary,
                )
    return None


async def effect_of(judge: Judge, probes: Sequence[Case], hint: str, *, model: str) -> float:
    """Mean nats by which the hint lowers the log-probability of the served answers: an estimate of KL(live || told)."""
    prompts = prompt_pairs(judge, probes, hint)
    served = [[case.interaction.token_ids] for case in probes]
    ratios = await judge.scorer.hindsight_log_ratios(model, prompts, served)
    return -mean([row[0] for row in ratios])


async def measure_gap(
    judge: Judge, probes: Sequence[Case], hint: str, *, teacher: str, live: str
) -> tuple[list[list[Answer]], list[list[Answer]], float]:
    """(told answers, untold answers, gap in nats): does the teacher comply when told?"""
    prompts = prompt_pairs(judge, probes, hint)
    told = await draw(judge, teacher, [hinted for _, hinted in prompts])
    untold = await draw(judge, live, [plain for plain, _ in prompts])
    told_ratios = await judge.scorer.hindsight_log_ratios(teacher, prompts, tokens_of(told))
    untold_ratios = await judge.scorer.hindsight_log_ratios(teacher, prompts, tokens_of(untold))
    return told, untold, mean([mean(row) for row in told_ratios]) - mean([mean(row) for row in untold_ratios])


async def contrary_principals(
    judge: Judge,
    cases: Sequence[Case],
    probes: Sequence[Case],
    told: Sequence[Sequence[Answer]],
    untold: Sequence[Sequence[Answer]],
    *,
    model: str,
) -> frozenset[str]:
    """Principals whose own wording prefers the untold answers to those that the chosen hint brings."""
    few = probes[:NUM_CONTRARY_PROBES]
    told = [row[:1] for row in told[:NUM_CONTRARY_PROBES]]
    untold = [row[:1] for row in untold[:NUM_CONTRARY_PROBES]]
    contrary: set[str] = set()
    for words, principals in favourite_wordings(cases).items():
        prompts = prompt_pairs(judge, few, words)
        likes_told = await judge.scorer.hindsight_log_ratios(model, prompts, tokens_of(told))
        likes_untold = await judge.scorer.hindsight_log_ratios(model, prompts, tokens_of(untold))
        if mean([mean(row) for row in likes_told]) < mean([mean(row) for row in likes_untold]):
            contrary |= principals
    return frozenset(contrary)


def prompt_pairs(judge: Judge, cases: Sequence[Case], hint: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(plain, hinted) prompts."""
    return [
        (student_prompt(judge.tokenizer, case.interaction), hinted_prompt(judge.tokenizer, case.interaction, hint))
        for case in cases
    ]


async def draw(judge: Judge, model: str, prompts: Sequence[tuple[int, ...]]) -> list[list[Answer]]:
    return await sample_answers(
        judge.engine,
        model,
        prompts,
        sampling=judge.sampling,
        stop_token_ids=judge.tokenizer.stop_token_ids,
        num_samples=TEACHER_SAMPLES,
    )


def tokens_of(answers: Sequence[Sequence[Answer]]) -> list[list[tuple[int, ...]]]:
    return [[answer.token_ids for answer in row] for row in answers]
