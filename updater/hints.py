"""Which of the users' own words become a cluster's hint, whether the policy complies when told, and who disagrees.

Three questions, asked of the engine before any training: which wording moves the frozen teacher most, in the eyes of
all the users' wordings; does the teacher, told so, answer differently from the live version (no gap, no training); and
whose own words do not ask for what it then answers (their examples are left out as dissenting).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from memory.completions import InferenceClient
from memory.records import SamplingParams
from memory.tokens import Tokenizer
from updater.objectives.hindsight import hinted_prompt, student_prompt
from updater.plan import Case, Target
from updater.rollouts import Answer, Scorer, mean, sample_answers

MAX_HINTS = 8
"""Wordings compared: at most one per principal, the most shared first."""
NUM_FINALISTS = 3
"""Wordings, of those that move the teacher most, whose answers are drawn and compared."""
NUM_PROBES = 6
"""Questions that each wording is tried on."""
MIN_GAP_NATS = 1.0
"""Least median gap: below it the policy does not do what it is told, so there is nothing to distil (EXPERIMENTS.md)."""
MIN_AGREEMENT = 0.4
"""Share of the gap that a user's own words have to show, or their examples are left out as dissenting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenHint:
    """A cluster's hint and what was measured of it."""

    text: str
    model: str
    """The teacher: the live version's name, or `base` where only the base complies."""
    effect_nats: float
    """Mean fall in the log-probability of the complained-of answers when the teacher reads the hint."""
    gap_nats: float
    """Median over the users' own wordings of R(teacher's answers) - R(live answers): what there is to learn."""
    alternatives: tuple[tuple[str, float], ...]
    """(wording, effect in nats) of all that were compared."""
    agreement: tuple[tuple[str, float], ...]
    """(wording, nats by which it prefers the hint's answers to the live ones)."""
    dissenting: frozenset[str]
    """Principals whose own words do not ask for what the hint brings, or ask for the contrary."""


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
    wordings = candidate_hints(target.hinted)
    probes = target.hinted[:NUM_PROBES]
    effects = {words: await effect_of(judge, probes, words, model=live) for words in wordings}
    ranked = sorted(wordings, key=lambda words: effects[words], reverse=True)
    untold = await draw(judge, live, [student_prompt(judge.tokenizer, case.interaction) for case in probes])
    for model in dict.fromkeys((live, "base")):
        agreements = {
            words: await agreement_with(judge, probes, words, model=model, untold=untold, wordings=wordings)
            for words in ranked[:NUM_FINALISTS]
        }
        best = max(agreements, key=lambda words: median(agreements[words].values()))
        gap = median(agreements[best].values())
        if gap >= MIN_GAP_NATS:
            principals = favourite_wordings(target.hinted)
            return ChosenHint(
                text=best,
                model=model,
                effect_nats=effects[best],
                gap_nats=gap,
                alternatives=tuple((words, effects[words]) for words in ranked),
                agreement=tuple(agreements[best].items()),
                dissenting=frozenset(
                    principal
                    for words, nats in agreements[best].items()
                    if nats < MIN_AGREEMENT * gap
                    for principal in principals[words]
                ),
            )
    return None


async def effect_of(judge: Judge, probes: Sequence[Case], hint: str, *, model: str) -> float:
    """Mean nats by which the hint lowers the log-probability of the served answers: an estimate of KL(live || told)."""
    prompts = prompt_pairs(judge, probes, hint)
    served = [[case.interaction.token_ids] for case in probes]
    ratios = await judge.scorer.hindsight_log_ratios(model, prompts, served)
    return -mean([row[0] for row in ratios])


async def agreement_with(
    judge: Judge,
    probes: Sequence[Case],
    hint: str,
    *,
    model: str,
    untold: Sequence[Sequence[Answer]],
    wordings: Sequence[str],
) -> dict[str, float]:
    """By user's wording, the nats by which it prefers the answers that `hint` brings to the untold ones.

    The wording itself is one of them: there the figure is the gap between teacher and student in its own terms.
    """
    told = await draw(judge, model, [hinted for _, hinted in prompt_pairs(judge, probes, hint)])
    preferences = {}
    for words in wordings:
        prompts = prompt_pairs(judge, probes, words)
        for_told = await judge.scorer.hindsight_log_ratios(model, prompts, tokens_of(told))
        for_untold = await judge.scorer.hindsight_log_ratios(model, prompts, tokens_of(untold))
        preferences[words] = mean([row[0] for row in for_told]) - mean([row[0] for row in for_untold])
    return preferences


def prompt_pairs(judge: Judge, cases: Sequence[Case], hint: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(plain, hinted) prompts."""
    return [
        (student_prompt(judge.tokenizer, case.interaction), hinted_prompt(judge.tokenizer, case.interaction, hint))
        for case in cases
    ]


async def draw(judge: Judge, model: str, prompts: Sequence[tuple[int, ...]]) -> list[list[Answer]]:
    """(prompts, 1) answers: many questions tell more than many answers to few."""
    return await sample_answers(
        judge.engine,
        model,
        prompts,
        sampling=judge.sampling,
        stop_token_ids=judge.tokenizer.stop_token_ids,
        num_samples=1,
    )


def tokens_of(answers: Sequence[Sequence[Answer]]) -> list[list[tuple[int, ...]]]:
    return [[answer.token_ids for answer in row] for row in answers]
