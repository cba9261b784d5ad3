"""Everything outside the policy that bears on an interaction's worth, gathered into Evidence.

Feedback is taken as it was given; the next turn is read by reflection/next_turn.py. What says nothing of good or bad
is kept with no score: unknown is not zero. Nothing is judged here.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from memory.records import Evidence, Feedback, Interaction, new_id
from memory.states import EvidenceKind
from reflection.next_turn import Exchange, read_next_turn


def gather_evidence(
    interactions: Sequence[Interaction],
    *,
    feedback: Mapping[str, Sequence[Feedback]],
    next_turns: Mapping[str, Interaction],
    now: datetime,
) -> list[Evidence]:
    """One row per source, in the order of `interactions`; the store ignores what it already has."""
    rows: list[Evidence] = []
    for interaction in interactions:
        rows.extend(_from_feedback(interaction, given, now=now) for given in feedback.get(interaction.id, ()))
        following = next_turns.get(interaction.id)
        if following is not None and following.last_user_text:
            rows.append(_from_next_turn(interaction, following, now=now))
    return rows


def _from_feedback(interaction: Interaction, given: Feedback, *, now: datetime) -> Evidence:
    score, comment = given.score, given.comment
    if score is None and comment:  # words without a thumb are read as a next turn is
        score = read_next_turn(_exchange(interaction, comment)).score
    return Evidence(
        id=new_id("ev"),
        created_at=now,
        interaction_id=interaction.id,
        kind=EvidenceKind.FEEDBACK,
        source_id=given.id,
        score=score,
        text=comment,
        correction=given.correction,
    )


def _from_next_turn(interaction: Interaction, following: Interaction, *, now: datetime) -> Evidence:
    reading = read_next_turn(_exchange(interaction, following.last_user_text))
    return Evidence(
        id=new_id("ev"),
        created_at=now,
        interaction_id=interaction.id,
        kind=EvidenceKind.NEXT_TURN,
        source_id=following.id,
        score=reading.score,
        text=reading.words or None,
    )


def _exchange(interaction: Interaction, turn: str) -> Exchange:
    return Exchange(question=interaction.last_user_text, answer=interaction.text, turn=turn)
