"""The gate: live against candidate on prompts that neither training nor selection saw, cluster by cluster.

A target must improve; a protected cluster must not be harmed. What scores an answer nobody rated is written down as
the rung. Nothing is pooled over clusters: "no cluster is worse" is an intersection of tests, each at its own level.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory.records import Interaction
from memory.tokens import Tokenizer
from updater.hints import Judge
from updater.objectives.hindsight import hinted_prompt, student_prompt
from updater.plan import Case, Protected
from updater.rollouts import Answer, all_of, mean
from updater.scorecard import ClusterScore, Measure, Rung, State
from updater.statistics import sign_flip_p, two_sided_p
from updater.targets import Progress, ReadyTarget, ask_teacher, measure_progress

ALPHA = 0.05
MIN_TARGET_PROMPTS = 5
"""Fewest prompts with which a one-sided sign-flip test can reach ALPHA (1 in 32)."""
MIN_PROTECTED_PROMPTS = 6
"""The same for the two-sided test (2 in 64)."""
NEGLIGIBLE_KL_NATS = 0.005
"""Sequence divergence below which no bounded score can move more than 5 points (Pinsker)."""
TOLERANCE_LENGTH = 0.10
"""Relative change of mean length that counts as harm when it is significant."""
TOLERANCE_ENDED = 0.10
TOLERANCE_NATURALNESS_NATS = 0.25
"""Fall of the mean token log-probability under the live version."""
TOLERANCE_LEAK = 0.25
"""Share of a target's gap by which its hint may show in another cluster's answers."""
LEAK_SAMPLES = 2
"""Answers per prompt that are scored for a leak."""
TOLERANCE_QUALITY_NATS = 0.5
"""Per token, under the hinted teacher: how much less likely a target's answers may be than the teacher's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Engine names of the two sides."""

    live: str
    candidate: str


async def gate_target(
    judge: Judge, ready: ReadyTarget, cases: Sequence[Case], versions: Versions, *, num_samples: int
) -> ClusterScore:
    """A target passes when it moved towards what was asked, and its answers are no worse than the teacher's own."""
    live, candidate = await all_of(
        [
            measure_progress(judge, ready, cases, model=model, num_samples=num_samples)
            for model in (versions.live, versions.candidate)
        ]
    )
    differences = [new - old for new, old in zip(candidate.scores, live.scores, strict=True)]
    measures = [
        Measure(
            name="hindsight log-ratio" if ready.hint else "log-likelihood of corrections",
            unit="nats",
            live=mean(live.scores) if cases else 0.0,
            candidate=mean(candidate.scores) if cases else 0.0,
            p_value=sign_flip_p(differences),
        )
    ]
    if ready.hint is not None and cases:
        measures.append(await quality_of(judge, ready, cases, candidate, num_samples=num_samples))
        shown = (length_measure(live, candidate), ended_measure(live, candidate))
        measures += [measure.model_copy(update={"harmful": False}) for measure in shown]  # it was asked to change
    state, reason = judge_target(measures, num_prompts=len(cases))
    return ClusterScore(
        cluster_id=ready.target.cluster_id,
        label=ready.target.label,
        role="target",
        rung=ready.rung,
        state=state,
        num_prompts=len(cases),
        num_samples=num_samples,
        measures=tuple(measures),
        reason=reason,
    )


def judge_target(measures: Sequence[Measure], *, num_prompts: int) -> tuple[State, str]:
    first = measures[0]
    if num_prompts < MIN_TARGET_PROMPTS:
        return State.INSUFFICIENT, f"{num_prompts} gate prompts of the {MIN_TARGET_PROMPTS} needed"
    bad = [measure for measure in measures if measure.harmful]
    if bad:
        return State.HARMED, "; ".join(f"{m.name}: {m.candidate:.2f} against {m.live:.2f} {m.unit}" for m in bad)
    moved = f"{first.name} {first.live:.1f} -> {first.candidate:.1f} {first.unit}, p = {first.p_value:.3f}"
    if first.candidate > first.live and (first.p_value or 1.0) <= ALPHA:
        return State.IMPROVED, moved
    return State.NOT_IMPROVED, moved


async def quality_of(
    judge: Judge, ready: ReadyTarget, cases: Sequence[Case], candidate: Progress, *, num_samples: int
) -> Measure:
    """Mean token log-probability under the hinted teacher: the candidate's answers beside the teacher's own."""
    assert ready.hint is not None
    hint = ready.hint
    told = await ask_teacher(judge, ready, cases, num_samples=num_samples)
    hinted = [hinted_prompt(judge.tokenizer, case.interaction, hint.text) for case in cases]
    own = await token_log_probability(judge, hint.model, hinted, told)
    reached = await token_log_probability(judge, hint.model, hinted, candidate.answers)
    p_value = sign_flip_p([old - new for old, new in zip(own, reached, strict=True)])
    fall = mean(own) - mean(reached)
    return Measure(
        name="token log-probability under the hinted teacher, beside the teacher's own",
        unit="nats",
        live=mean(own),
        candidate=mean(reached),
        p_value=p_value,
        harmful=fall > TOLERANCE_QUALITY_NATS and p_value <= ALPHA,
    )


async def gate_protected(
    judge: Judge, cluster: Protected, targets: Sequence[ReadyTarget], versions: Versions, *, num_samples: int
) -> ClusterScore:
    """A protected cluster passes when its answers did not change in any way that can be seen."""
    prompts = [student_prompt(judge.tokenizer, row) for row in cluster.gate]
    divergence = await served_divergence(judge, cluster.gate, prompts, versions)
    if cluster.gate and divergence.candidate <= NEGLIGIBLE_KL_NATS:
        return protected_score(cluster, Rung.DIVERGENCE, [divergence], num_samples=0)
    both = await all_of(
        [judge.sample(model, prompts, num_samples=num_samples) for model in (versions.live, versions.candidate)]
    )
    live, candidate = [Progress(scores=(), answers=tuple(tuple(row) for row in answers)) for answers in both]
    measures = [divergence]
    if cluster.gate:
        measures += [length_measure(live, candidate), ended_measure(live, candidate)]
        measures.append(await naturalness(judge, prompts, live, candidate, versions))
        measures += [await leak(judge, cluster.gate, ready, live, candidate) for ready in targets if ready.hint]
    return protected_score(cluster, Rung.BEHAVIOUR, measures, num_samples=num_samples)


def protected_score(cluster: Protected, rung: Rung, measures: Sequence[Measure], *, num_samples: int) -> ClusterScore:
    bad = [measure for measure in measures if measure.harmful]
    if bad:
        state = State.HARMED
        reason = "; ".join(f"{m.name} {m.live:.2f} -> {m.candidate:.2f} {m.unit}, p = {m.p_value:.3f}" for m in bad)
    elif len(cluster.gate) < MIN_PROTECTED_PROMPTS and rung is not Rung.DIVERGENCE:
        state = State.INSUFFICIENT
        reason = f"{len(cluster.gate)} gate prompts of the {MIN_PROTECTED_PROMPTS} a test needs; covered by replay"
    else:
        state, reason = State.UNHARMED, "no change that can be told from noise"
    return ClusterScore(
        cluster_id=cluster.cluster_id,
        label=cluster.label,
        role="protected",
        rung=rung,
        state=state,
        num_prompts=len(cluster.gate),
        num_samples=num_samples,
        measures=tuple(measures),
        reason=reason,
    )


async def served_divergence(
    judge: Judge, rows: Sequence[Interaction], prompts: Sequence[tuple[int, ...]], versions: Versions
) -> Measure:
    """Mean |difference| in nats of the served answers' log-probability: estimates KL(live || candidate)."""
    pairs = [(prompt, row.token_ids) for prompt, row in zip(prompts, rows, strict=True)]
    old = await judge.scorer.log_probabilities(versions.live, pairs)
    new = await judge.scorer.log_probabilities(versions.candidate, pairs)
    falls = [abs(before - after) for before, after in zip(old, new, strict=True)]
    return Measure(name="divergence on served answers", unit="nats", live=0.0, candidate=mean(falls) if falls else 0.0)


def length_measure(live: Progress, candidate: Progress) -> Measure:
    old = [mean([len(answer.token_ids) for answer in row]) for row in live.answers]
    new = [mean([len(answer.token_ids) for answer in row]) for row in candidate.answers]
    return change("mean length", "tokens", old, new, tolerance=TOLERANCE_LENGTH * mean(old))


def ended_measure(live: Progress, candidate: Progress) -> Measure:
    old = [mean([float(answer.ended) for answer in row]) for row in live.answers]
    new = [mean([float(answer.ended) for answer in row]) for row in candidate.answers]
    return change("share that ended by itself", "share", old, new, tolerance=TOLERANCE_ENDED)


async def naturalness(
    judge: Judge, prompts: Sequence[tuple[int, ...]], live: Progress, candidate: Progress, versions: Versions
) -> Measure:
    old = await token_log_probability(judge, versions.live, prompts, live.answers)
    new = await token_log_probability(judge, versions.live, prompts, candidate.answers)
    fall = change("token log-probability under live", "nats", old, new, tolerance=TOLERANCE_NATURALNESS_NATS)
    return fall if mean(new) < mean(old) else fall.model_copy(update={"harmful": False})


async def leak(
    judge: Judge, rows: Sequence[Interaction], ready: ReadyTarget, live: Progress, candidate: Progress
) -> Measure:
    """Do answers here begin to obey a wish that was voiced of another kind of question?"""
    assert ready.hint is not None
    prompts = [leak_prompts(judge.tokenizer, row, ready.hint.text) for row in rows]
    told = [[answer.token_ids for answer in row[:LEAK_SAMPLES]] for row in live.answers]
    new = [[answer.token_ids for answer in row[:LEAK_SAMPLES]] for row in candidate.answers]
    before = [mean(row) for row in await judge.scorer.hindsight_log_ratios(ready.hint.model, prompts, told)]
    after = [mean(row) for row in await judge.scorer.hindsight_log_ratios(ready.hint.model, prompts, new)]
    return change(
        f"leak of the hint for {ready.target.label}",
        "nats",
        before,
        after,
        tolerance=TOLERANCE_LEAK * ready.hint.gap_nats,
    )


def leak_prompts(tokenizer: Tokenizer, row: Interaction, hint: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return student_prompt(tokenizer, row), hinted_prompt(tokenizer, row, hint)


def change(name: str, unit: str, old: Sequence[float], new: Sequence[float], *, tolerance: float) -> Measure:
    """A two-sided paired comparison; harmful when it is both significant and larger than the tolerance."""
    p_value = two_sided_p([after - before for before, after in zip(old, new, strict=True)])
    return Measure(
        name=name,
        unit=unit,
        live=mean(old),
        candidate=mean(new),
        p_value=p_value,
        harmful=p_value <= ALPHA and abs(mean(new) - mean(old)) > tolerance,
    )


async def token_log_probability(
    judge: Judge, model: str, prompts: Sequence[tuple[int, ...]], answers: Sequence[Sequence[Answer]]
) -> list[float]:
    """(prompts,) mean log-probability per token of the answers under `model`."""
    pairs = [(prompts[row], answer.token_ids) for row, given in enumerate(answers) for answer in given]
    sums = iter(await judge.scorer.log_probabilities(model, pairs))
    return [mean([next(sums) / max(1, len(answer.token_ids)) for answer in given]) for given in answers]
