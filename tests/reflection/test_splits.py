"""Groups and splits: fixed early, never moved, nothing leaks."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory.records import Assignment, Interaction
from memory.states import Split
from reflection.nearest import Vectors
from reflection.splits import SHARES, group_duplicates, split_groups
from tests.fakes_reflection import embed_words
from tests.reflection.builders import a_follow_up, an_interaction


def _vectors(interactions: Sequence[Interaction]) -> Vectors:
    return np.stack([embed_words(one.last_user_text) for one in interactions])


def test_equal_requests_and_sessions_stay_together() -> None:
    """The same words from two users, and two turns of one session, are one group each."""
    same = [an_interaction(1, "What is a glacier?"), an_interaction(2, "what is a  GLACIER?", principal="p2")]
    turn = a_follow_up(3, same[1], "And an iceberg?")
    other = an_interaction(4, "How do I boil an egg?")
    everything = [*same, turn, other]
    groups = group_duplicates(everything, [one.id for one in everything], _vectors(everything))
    assert [groups[one.id] for one in everything] == ["i_0001", "i_0001", "i_0001", "i_0004"]


def test_the_same_complaint_joins_nobody() -> None:
    """Users who complain in the same words are not near-duplicates of one another."""
    first, second = an_interaction(1), an_interaction(2, "Why is the sky blue?", principal="p2")
    turns = [a_follow_up(3, first, "Too long!"), a_follow_up(4, second, "Too long!")]
    groups = group_duplicates([first, second, *turns], [first.id, second.id], _vectors([first, second]))
    assert groups[first.id] != groups[second.id]


@given(st.integers(3, 80), st.integers(1, 3))
def test_every_cluster_gets_its_shares(num_items: int, num_clusters: int) -> None:
    """Groups of one come within one of the wanted share, in every cluster by itself."""
    names = [f"i_{number:04d}" for number in range(num_items)]
    clusters = {name: f"cl_{position % num_clusters}" for position, name in enumerate(names)}
    placed = split_groups({name: name for name in names}, clusters, {})
    for cluster in set(clusters.values()):
        counts = Counter(placed[name][1] for name in names if clusters[name] == cluster)
        assert all(abs(counts[split] - share * counts.total()) <= 1.0 for split, share in SHARES.items())


def test_what_has_a_place_keeps_it_and_newcomers_follow() -> None:
    """A newcomer of a placed group gets its split; placed members are not returned."""
    known = {"i_0001": Assignment(interaction_id="i_0001", group_id="i_0001", split=Split.AUDIT)}
    placed = split_groups({"i_0001": "i_0001", "i_0002": "i_0001"}, {"i_0001": "cl", "i_0002": "cl"}, known)
    assert placed == {"i_0002": ("i_0001", Split.AUDIT)}


def test_forty_four_questions_give_two_dozen_to_train_on() -> None:
    """What an everyday cluster of 44 offers is enough for one update."""
    names = [f"i_{number:04d}" for number in range(44)]
    placed = split_groups({name: name for name in names}, dict.fromkeys(names, "cl"), {})
    assert Counter(split for _, split in placed.values())[Split.TRAIN] >= 24
