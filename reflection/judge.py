"""Evidence on one interaction -> Verdict or Abstention. Pure: no model is asked.

The ladder, strongest first: the policy's own failure, a correction or a rating someone gave, the user's next turn. A
small model is no judge of content (LLMBar, Zeng et al. 2023: position and surface decide, and the starter model says
yes to nearly everything), so where no one said anything the judge abstains. Hints are the users' own words, never ours.
"""

from collections.abc import Sequence
from datetime import datetime

from memory.records import Abstention, Evidence, Interaction, Verdict, new_id
from memory.states import Cause, EvidenceKind, FinishReason, Outcome

GOOD_FROM = 0.5
"""Verdict scores below this are failures."""
_CONTRADICTION = 0.25
"""Ratings of both signs whose mean is nearer to zero than this cancel out."""


def judge(
    interaction: Interaction, evidence: Sequence[Evidence], *, pass_id: str, now: datetime
) -> Verdict | Abstention:
    """Decide, or say why not."""
    evidence_ids = tuple(row.id for row in evidence)
    decided = _decide(interaction, evidence)
    if isinstance(decided, str):
        return Abstention(
            id=new_id("abs"),
            created_at=now,
            pass_id=pass_id,
            interaction_id=interaction.id,
            reason=decided,
            evidence_ids=evidence_ids,
        )
    score, reason = decided
    is_bad = score < GOOD_FROM
    return Verdict(
        id=new_id("ver"),
        created_at=now,
        pass_id=pass_id,
        interaction_id=interaction.id,
        score=score,
        reasons=(reason,),
        hint=_hint(evidence) if is_bad else None,
        correction=_correction(evidence),
        evidence_ids=evidence_ids,
    )


def _decide(interaction: Interaction, evidence: Sequence[Evidence]) -> tuple[float, str] | str:
    """(score in [0, 1], reason), or the reason for abstaining."""
    if interaction.outcome is Outcome.FAILED and interaction.cause is not Cause.POLICY:
        return f"served with a fault that is not the policy's: {interaction.cause}"
    if interaction.outcome is Outcome.FAILED:
        return 0.0, "the policy's own failure"
    ratings = [row.score for row in evidence if row.kind is not EvidenceKind.NEXT_TURN and row.score is not None]
    if ratings:
        return _decide_by_ratings(ratings)
    if _correction(evidence) is not None:
        return 0.0, "someone gave the answer that should have been given"
    next_turn = next((row.score for row in evidence if row.kind is EvidenceKind.NEXT_TURN), None)
    if next_turn is not None:
        return _to_unit(
            next_turn
        ), f"the user's next turn {'asked for it otherwise' if next_turn < 0 else 'was content'}"
    return _why_silent(interaction, evidence)


def _why_silent(interaction: Interaction, evidence: Sequence[Evidence]) -> str:
    if interaction.finish_reason is FinishReason.ABORT:
        return "the client left before the answer ended"
    return "the evidence says nothing of good or bad" if evidence else "nobody said anything of it"


def _decide_by_ratings(ratings: Sequence[float]) -> tuple[float, str] | str:
    mean = sum(ratings) / len(ratings)
    if min(ratings) < 0 < max(ratings) and abs(mean) < _CONTRADICTION:
        return f"{len(ratings)} ratings contradict one another"
    if mean == 0:
        return "rated neither good nor bad"
    return _to_unit(mean), f"rated {mean:+.2f} by {len(ratings)} feedback" + ("s" if len(ratings) > 1 else "")


def _hint(evidence: Sequence[Evidence]) -> str | None:
    """What was said against the answer: comments first, then the next turn; praise is no hint."""
    comments = [row.text for row in evidence if row.kind is not EvidenceKind.NEXT_TURN and row.text]
    turns = [
        row.text
        for row in evidence
        if row.kind is EvidenceKind.NEXT_TURN and row.text and row.score is not None and row.score < 0
    ]
    return " ".join(dict.fromkeys(text.strip() for text in (*comments, *turns))) or None


def _correction(evidence: Sequence[Evidence]) -> str | None:
    """The newest one."""
    return next((row.correction for row in reversed(evidence) if row.correction), None)


def _to_unit(score: float) -> float:
    return (max(-1.0, min(1.0, score)) + 1.0) / 2.0
