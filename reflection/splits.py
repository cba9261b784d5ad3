"""Near-duplicate groups and the train / gate / audit split, fixed before any judgement is looked at.

A group is what would leak if it were cut: interactions of one session, requests of equal text, and requests whose
vectors nearly coincide. Feedback turns ("Too long!") are joined by session only, or every user who complains in the
same words would end in one group. What has a split keeps it for ever.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.records import Assignment, Interaction
from memory.states import Split
from reflection.words import normalise

NEAR_DUPLICATE = 0.95
"""Cosine of request vectors."""
SHARES = {Split.TRAIN: 0.55, Split.GATE: 0.25, Split.AUDIT: 0.20}
_BLOCK = 1024
"""Rows of the similarity matrix held at once."""


def group_duplicates(
    interactions: Sequence[Interaction], requests: Sequence[str], vectors: NDArray[np.float32]
) -> dict[str, str]:
    """Interaction id -> group id (the oldest member's id).

    `requests` are the ids of those interactions that are requests, `vectors` (N, D) unit, one for each of them.
    """
    parent = {interaction.id: interaction.id for interaction in interactions}

    def root(member: str) -> str:
        while parent[member] != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    is_request = set(requests)
    first_of: dict[tuple[str, ...], str] = {}
    for interaction in interactions:
        keys = [("session", interaction.principal, interaction.session_id)]
        if interaction.id in is_request:
            keys.append(("text", normalise(interaction.last_user_text), ""))
        for key in keys:
            parent[root(interaction.id)] = root(first_of.setdefault(key, interaction.id))
    for left, right in _near_pairs(vectors):
        parent[root(requests[left])] = root(requests[right])
    oldest: dict[str, str] = {}
    for interaction in interactions:
        known = oldest.get(root(interaction.id), interaction.id)
        oldest[root(interaction.id)] = min(known, interaction.id)
    return {interaction.id: oldest[root(interaction.id)] for interaction in interactions}


def split_groups(
    groups: Mapping[str, str], clusters: Mapping[str, str | None], known: Mapping[str, Assignment]
) -> dict[str, tuple[str, Split]]:
    """Interaction id -> (group id, split) for those without a place yet.

    A group with a placed member follows its oldest one. New groups go, biggest first, to the split that its cluster
    lacks most; ties and order are decided by a hash of the group id, so the result does not depend on chance.
    """
    members: dict[str, list[str]] = defaultdict(list)
    for member in sorted(groups):
        members[groups[member]].append(member)
    counts: dict[str | None, Counter[Split]] = defaultdict(Counter)
    for member, place in known.items():
        counts[clusters.get(member, place.cluster_id)][place.split] += 1
    placed: dict[str, tuple[str, Split]] = {}
    for group in sorted(members, key=lambda name: (-len(members[name]), _digest(name))):
        new = [member for member in members[group] if member not in known]
        settled = next((known[member] for member in members[group] if member in known), None)
        cluster = _main_cluster(members[group], clusters)
        split = settled.split if settled else _most_lacking(counts[cluster])
        name = settled.group_id if settled else group
        for member in new:
            placed[member] = (name, split)
            if clusters.get(member) is not None:
                counts[clusters[member]][split] += 1
    return placed


def _main_cluster(members: Sequence[str], clusters: Mapping[str, str | None]) -> str | None:
    found = Counter(clusters[member] for member in members if clusters.get(member) is not None)
    return found.most_common(1)[0][0] if found else None


def _most_lacking(counts: Counter[Split]) -> Split:
    """The split furthest below its share once one more is in."""
    total = counts.total() + 1
    return max(SHARES, key=lambda split: SHARES[split] * total - counts[split])


def _near_pairs(vectors: NDArray[np.float32]) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK] @ vectors.T  # (B, N)
        for row, column in np.argwhere(block >= NEAR_DUPLICATE).tolist():
            if start + row < column:
                pairs.append((start + row, column))
    return pairs


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
