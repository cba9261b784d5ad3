"""Judged interactions -> examples by method, and what is left out by reason. Pure; the split was fixed before.

A correction is a demonstration; a failure with the user's own words is hindsight; what was good is replay. Examples
of every split are made: gate and audit need them too. No principal has more train examples in a cluster than the cap.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory.records import Abstention, Assignment, Example, Interaction, Verdict, new_id
from memory.states import Method, Outcome, Split
from reflection.privacy import find_private
from reflection.settings import ReflectionSettings
from reflection.support import is_failed, median_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Curation:
    """What one cluster offers to training."""

    standing: tuple[Example, ...]
    """All examples of the cluster that hold now, older ones included."""
    changed: tuple[Example, ...]
    """Those to append: new ones, and withdrawals (weight 0) of older ones that no longer hold."""
    left_out: tuple[tuple[str, int], ...]
    """(reason, how many), most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What an example refers back to."""

    reflection_id: str
    cluster_id: str
    now: datetime


def curate(
    members: Sequence[Interaction],
    judged: Mapping[str, Verdict | Abstention],
    places: Mapping[str, Assignment],
    *,
    earlier: Sequence[Example],
    origin: Origin,
    settings: ReflectionSettings,
) -> Curation:
    """Examples of one cluster; `earlier` are its members' newest examples per method."""
    left_out: Counter[str] = Counter()
    wanted: list[Example] = []
    for member in sorted(members, key=lambda member: member.id):
        decided = judged.get(member.id)
        reason = _why_unfit(member, decided)
        if reason is not None or not isinstance(decided, Verdict):
            left_out[reason or "not judged yet"] += 1
            continue
        wanted.append(_example(member, decided, places[member.id].split, origin))
    standing = _cap(wanted, settings.max_per_principal, left_out)
    return _against_earlier(standing, earlier, origin, left_out)


def _why_unfit(member: Interaction, decided: Verdict | Abstention | None) -> str | None:
    """The reason to leave an interaction out; None where it can teach."""
    if not member.learn:
        return "kept out of learning at the client's request"
    if isinstance(decided, Abstention):
        return f"not judged: {decided.reason}"
    if decided is None:
        return "not judged yet"
    if member.outcome is not Outcome.OK or not member.token_ids or not member.text.strip():
        return "no complete answer to learn from"
    if is_failed(decided) and not (decided.hint or decided.correction):
        return "failed, but nobody said how it should have been"
    private = find_private(member.last_user_text, member.text, decided.hint, decided.correction)
    return None if private is None else f"holds private data ({private})"


def _example(member: Interaction, verdict: Verdict, split: Split, origin: Origin) -> Example:
    method = Method.HINDSIGHT if is_failed(verdict) else Method.REPLAY
    return Example(
        id=new_id("ex"),
        created_at=origin.now,
        reflection_id=origin.reflection_id,
        interaction_id=member.id,
        cluster_id=origin.cluster_id,
        principal=member.principal,
        method=Method.CORRECTION if verdict.correction else method,
        split=split,
        hint=verdict.hint,
        correction=verdict.correction,
        evidence_ids=verdict.evidence_ids,
    )


def _cap(wanted: Sequence[Example], max_per_principal: int, left_out: Counter[str]) -> list[Example]:
    """The oldest train examples of each principal, up to the cap or twice the median principal's number."""
    owners = [example.principal for example in wanted if example.split is Split.TRAIN]
    cap = max(max_per_principal, int(2 * median_count(owners)))
    kept: list[Example] = []
    taken: Counter[str] = Counter()
    for example in wanted:
        if example.split is Split.TRAIN:
            taken[example.principal] += 1
            if taken[example.principal] > cap:
                left_out[f"beyond the {cap} train examples of one principal"] += 1
                continue
        kept.append(example)
    return kept


def _against_earlier(
    standing: Sequence[Example], earlier: Sequence[Example], origin: Origin, left_out: Counter[str]
) -> Curation:
    """Append only what changed: a pass that learns nothing new writes nothing."""
    known = {(example.interaction_id, example.method): example for example in earlier}
    holds: list[Example] = []
    changed: list[Example] = []
    for example in standing:
        before = known.pop((example.interaction_id, example.method), None)
        if before is not None and _same(before, example):
            holds.append(before)
        else:
            holds.append(example)
            changed.append(example)
    changed.extend(
        replace(gone, id=new_id("ex"), created_at=origin.now, reflection_id=origin.reflection_id, weight=0.0)
        for gone in known.values()
        if gone.weight > 0
    )
    return Curation(standing=tuple(holds), changed=tuple(changed), left_out=tuple(left_out.most_common()))


def _same(before: Example, after: Example) -> bool:
    fields = ("cluster_id", "split", "hint", "correction", "weight", "evidence_ids")
    return all(getattr(before, name) == getattr(after, name) for name in fields)
