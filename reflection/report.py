"""The self-evaluation of one cluster as a record that an operator can read without knowing the code."""

from collections.abc import Sequence

from memory.records import Cluster, FailureMode, Reflection
from memory.states import Remedy, Split
from reflection.curate import Curation, Origin
from reflection.support import Support

_REMEDIES = {
    Remedy.WEIGHTS: "Remedy: change the weights",
    Remedy.MEMORY: "Remedy: leave it to memory",
    Remedy.FAULT: "Remedy: mend the fault",
    Remedy.NOTHING: "Remedy: none",
}


def build_reflection(
    cluster: Cluster,
    support: Support,
    modes: Sequence[FailureMode],
    curation: Curation,
    *,
    pass_id: str,
    origin: Origin,
    remedy: tuple[Remedy, str],
) -> Reflection:
    """One row for one cluster in one pass."""
    return Reflection(
        id=origin.reflection_id,
        created_at=origin.now,
        pass_id=pass_id,
        cluster_id=cluster.id,
        label=cluster.label,
        num_interactions=support.num_interactions,
        num_judged=support.num_judged,
        num_principals=support.num_principals,
        score=support.score,
        score_low=support.good_low,
        score_high=support.good_high,
        failure_modes=tuple(modes),
        diagnosis=_diagnose(support, modes, curation, remedy),
        remedy=remedy[0],
        num_proposed=_num_proposed(curation) if remedy[0] is Remedy.WEIGHTS else 0,
        left_out=curation.left_out,
    )


def _num_proposed(curation: Curation) -> int:
    return sum(example.split is Split.TRAIN for example in curation.standing)


def _diagnose(support: Support, modes: Sequence[FailureMode], curation: Curation, remedy: tuple[Remedy, str]) -> str:
    sentences = [_how_it_went(support)]
    if modes:
        sentences.append("; ".join(f"{mode.label} ({mode.count})" for mode in modes) + ".")
    kind, why = remedy
    sentences.append(f"{_REMEDIES[kind]}. {why}")
    if kind is Remedy.WEIGHTS:
        held = len(curation.standing) - _num_proposed(curation)
        sentences.append(f"{_num_proposed(curation)} examples to train on, {held} held for gate and audit.")
    return " ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)


def _how_it_went(support: Support) -> str:
    if support.good_low is None or support.good_high is None:
        return f"None of {support.num_interactions} answers could be judged."
    return (
        f"{support.num_failed} of {support.num_judged} judged answers failed "
        f"(good: {support.good_low:.0%} to {support.good_high:.0%}), from {support.num_principals} people."
    )
