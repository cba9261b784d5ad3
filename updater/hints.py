"""Which of the users' own words become a cluster's hint, whether the policy complies when told, and who disagrees.

Three questions, asked of the engine before any training: which wordings move the frozen teacher, and which of them to
the most natural answers; does the teacher, told so, answer differently from the live version, in the eyes of all the
users' wordings (no gap, no training); and whose own words do not ask for what it then answers (their examples are left
out as dissenting).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from statistics import median

from memory.completions import InferenceClient
from memory.records import SamplingParams
from memory.tokens import Tokenizer
from updater.objectives.hindsight import hinted_prompt, student_prompt
from updater.plan import Case, Target
from updater.rollouts import Answer, Scorer, all_of, mean, sample_answers

BASE = "base"
"""What the engine calls the model without an adapter."""
MAX_HINTS = 8
"""Wordings tried: everybody's first, then everybody's second."""
NUM_PROBES = 6
"""Questions that each wording is tried on."""
NUM_FINALISTS = 3
"""Wordings that are tried further: six answers leave a clarity uncertain by as much as lies between good and bad."""
FINAL_PROBES = 20
FINAL_DRAWS = 2
"""Answers to each of these questions."""
MIN_GAP_NATS = 1.0
"""Least median gap: below it the teacher does nothing else when told, so there is nothing to distil."""
WORKS = 0.6
"""Share of the median gap from which a wording counts as working. One that is far above the others proves nothing."""
GAP_SHARE = 0.5
"""How much of the gap per token counts as clarity. All of it favours terse answers that a student cannot follow to."""
MIN_AGREEMENT = 0.4
"""Share of the gap that a user's own words have to show, or their examples are left out as dissenting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedWording:
    """What one user's words do to the frozen teacher."""

    words: str
    told: tuple[tuple[tuple[int, ...], ...], ...]
    """(probes, draws) the teacher's answers when told."""
    gap_nats: float
    """R(told answers) - R(live answers), under these words."""
    naturalness_nats: float
    """Mean log-probability per token of the told answers under the same policy when not told."""

    @property
    def num_answers(self) -> int:
        return sum(len(row) for row in self.told)

    @property
    def clarity_nats(self) -> float:
        """How natural and how much asked for its answers are, per token."""
        num_tokens = mean([len(answer) for row in self.told for answer in row])
        return self.naturalness_nats + GAP_SHARE * self.gap_nats / num_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenHint:
    """A cluster's hint and what was measured of it."""

    text: str
    model: str
    """The teacher: the live version's name, or `base` where only the base complies."""
    gap_nats: float
    """Median over the users' wordings of the nats by which they prefer the hint's answers: what there is to learn."""
    tried: tuple[TriedWording, ...]
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
    drawn: dict[tuple[str, tuple[int, ...]], list[Answer]] = field(default_factory=dict)
    """By model and prompt what was sampled so far: the seeds are the same, so would be the answers."""

    async def sample(self, model: str, prompts: Sequence[tuple[int, ...]], *, num_samples: int) -> list[list[Answer]]:
        """(prompts, samples) answers, each drawn only once."""
        await all_of([self._draw_missing(model, prompt, num_samples) for prompt in dict.fromkeys(prompts)])
        answers = [self.drawn[model, prompt][:num_samples] for prompt in prompts]
        self.scorer.remember(model, prompts, answers)
        return answers

    async def _draw_missing(self, model: str, prompt: tuple[int, ...], num_samples: int) -> None:
        known = self.drawn.get((model, prompt), [])
        new = await sample_answers(
            self.engine,
            model,
            prompt,
            sampling=self.sampling,
            stop_token_ids=self.tokenizer.stop_token_ids,
            numbers=range(len(known), num_samples),
        )
        self.drawn[model, prompt] = known + new


def wordings_of(cases: Sequence[Case]) -> dict[str, list[str]]:
    """By principal their distinct wordings, the most frequent first."""
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        if case.example.hint:
            counts.setdefault(case.example.principal, Counter())[case.example.hint] += 1
    return {principal: [words for words, _ in said.most_common()] for principal, said in counts.items()}


def candidate_hints(wordings: Mapping[str, Sequence[str]]) -> list[str]:
    """Distinct wordings to try: everybody's first before anybody's second."""
    rounds = zip_longest(*wordings.values())
    return list(dict.fromkeys(words for one in rounds for words in one if words))[:MAX_HINTS]


async def choose_hint(judge: Judge, target: Target, *, live: str) -> ChosenHint | None:
    """The cluster's hint, or None when the teacher does nothing else when told."""
    wordings = wordings_of(target.hinted)
    favourites = {principal: said[0] for principal, said in wordings.items()}
    probes = target.hinted[:NUM_PROBES]
    untold = await draw(judge, live, [student_prompt(judge.tokenizer, case.interaction) for case in probes])
    for model in dict.fromkeys((live, BASE)):
        tried = await try_wordings(judge, target.hinted, candidate_hints(wordings), model=model, untold=untold)
        best = tried[0]
        first_told = [row[0] for row in best.told[: len(probes)]]
        heard = list(dict.fromkeys(favourites.values()))
        preferences = await all_of(
            [preference(judge, probes, words, first_told, untold, model=model) for words in heard]
        )
        agreement = dict(zip(heard, preferences, strict=True))
        gap = median(agreement.values())
        if gap >= MIN_GAP_NATS:
            return ChosenHint(
                text=best.words,
                model=model,
                gap_nats=gap,
                tried=tried,
                agreement=tuple(agreement.items()),
                dissenting=frozenset(
                    one for one, words in favourites.items() if agreement[words] < MIN_AGREEMENT * gap
                ),
            )
    return None


async def try_wordings(
    judge: Judge,
    cases: Sequence[Case],
    candidates: Sequence[str],
    *,
    model: str,
    untold: Sequence[tuple[int, ...]],
) -> tuple[TriedWording, ...]:
    """All on a few questions, the clearest of them on more; the clearest of those comes first."""
    probes, finals = cases[: len(untold)], cases[:FINAL_PROBES]
    tried = await all_of(
        [try_wording(judge, probes, words, model=model, untold=untold, num_draws=1) for words in candidates]
    )
    finalists = [one.words for one in clearest(tried)[:NUM_FINALISTS]]
    further = await all_of(
        [try_wording(judge, finals, words, model=model, untold=untold, num_draws=FINAL_DRAWS) for words in finalists]
    )
    best = clearest(further)[0]
    every = {one.words: one for one in (*tried, *further)}  # on most questions
    return (best, *(one for one in every.values() if one is not best))


def clearest(tried: Sequence[TriedWording]) -> list[TriedWording]:
    """Those that move the teacher, the clearest first.

    The gap alone rewards what is unlikely unasked (a scolding has a large one, and brings apologies); naturalness
    alone what is obeyed half of the time. Naturalness and half the gap per token rank wordings by how well they are
    obeyed (EXPERIMENTS.md).
    """
    enough = WORKS * median(one.gap_nats for one in tried)
    working = [one for one in tried if one.gap_nats >= enough] or list(tried)
    return sorted(working, key=lambda one: one.clarity_nats, reverse=True)


async def try_wording(
    judge: Judge,
    cases: Sequence[Case],
    words: str,
    *,
    model: str,
    untold: Sequence[tuple[int, ...]],
    num_draws: int,
) -> TriedWording:
    """`untold`: the live version's answers to the first of the cases."""
    prompts = prompt_pairs(judge, cases, words)
    told = tokens_of(await judge.sample(model, [hinted for _, hinted in prompts], num_samples=num_draws))
    ratios = await judge.scorer.hindsight_log_ratios(model, prompts, told)
    for_untold = await mean_log_ratio(judge, cases[: len(untold)], words, untold, model=model)
    return TriedWording(
        words=words,
        told=tuple(tuple(row) for row in told),
        gap_nats=mean([mean(row) for row in ratios]) - for_untold,
        naturalness_nats=await naturalness(judge, [plain for plain, _ in prompts], told, model=model),
    )


async def naturalness(
    judge: Judge, plain: Sequence[tuple[int, ...]], told: Sequence[Sequence[tuple[int, ...]]], *, model: str
) -> float:
    pairs = [(prompt, answer) for prompt, row in zip(plain, told, strict=True) for answer in row]
    sums = await judge.scorer.log_probabilities(model, pairs)
    return mean([nats / len(answer) for nats, (_, answer) in zip(sums, pairs, strict=True)])


async def preference(
    judge: Judge,
    probes: Sequence[Case],
    words: str,
    told: Sequence[tuple[int, ...]],
    untold: Sequence[tuple[int, ...]],
    *,
    model: str,
) -> float:
    """Mean nats by which a wording, read as the hint, prefers the told answers to the untold ones."""
    for_told = await mean_log_ratio(judge, probes, words, told, model=model)
    return for_told - await mean_log_ratio(judge, probes, words, untold, model=model)


async def mean_log_ratio(
    judge: Judge, probes: Sequence[Case], words: str, answers: Sequence[tuple[int, ...]], *, model: str
) -> float:
    """R in nats, mean over the probes, of one answer each under one wording."""
    prompts = prompt_pairs(judge, probes, words)
    ratios = await judge.scorer.hindsight_log_ratios(model, prompts, [[answer] for answer in answers])
    return mean([row[0] for row in ratios])


def prompt_pairs(judge: Judge, cases: Sequence[Case], hint: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(plain, hinted) prompts."""
    return [
        (student_prompt(judge.tokenizer, case.interaction), hinted_prompt(judge.tokenizer, case.interaction, hint))
        for case in cases
    ]


async def draw(judge: Judge, model: str, prompts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """(prompts,) answers: many questions tell more than many answers to few."""
    answers = await judge.sample(model, prompts, num_samples=1)
    return [row[0].token_ids for row in answers]


def tokens_of(answers: Sequence[Sequence[Answer]]) -> list[list[tuple[int, ...]]]:
    return [[answer.token_ids for answer in row] for row in answers]
