"""The judge's ladder, and what it leaves undecided."""

from typing import Any

from memory.records import Abstention, Evidence, Verdict
from memory.states import Cause, EvidenceKind, Outcome
from reflection.evidence import gather_evidence
from reflection.judge import judge
from tests.reflection.builders import T0, a_follow_up, an_evidence, an_interaction


def _judge(*evidence: Evidence, **changes: Any) -> Verdict | Abstention:
    return judge(an_interaction(1, **changes), evidence, pass_id="pass_1", now=T0)


def test_a_rating_outranks_the_next_turn() -> None:
    """Who rated an answer good meant it, whatever the next turn sounds like; and then there is no hint."""
    verdict = _judge(
        an_evidence("i_0001", score=1.0),
        an_evidence("i_0001", id="ev_2", kind=EvidenceKind.NEXT_TURN, score=-0.8, text="Too long."),
    )
    assert isinstance(verdict, Verdict)
    assert (verdict.score, verdict.hint) == (1.0, None)


def test_the_hint_is_what_the_user_said() -> None:
    """A thumb down takes its words from the next turn."""
    verdict = _judge(
        an_evidence("i_0001", score=-1.0),
        an_evidence("i_0001", id="ev_2", kind=EvidenceKind.NEXT_TURN, score=-0.8, text="One line is plenty."),
    )
    assert isinstance(verdict, Verdict)
    assert (verdict.score, verdict.hint, verdict.evidence_ids) == (0.0, "One line is plenty.", ("ev_i_0001", "ev_2"))


def test_a_correction_alone_says_the_answer_was_wrong() -> None:
    """Nobody writes the right answer to a right answer."""
    verdict = _judge(an_evidence("i_0001", correction="Frozen water on the move."))
    assert isinstance(verdict, Verdict)
    assert (verdict.score, verdict.correction) == (0.0, "Frozen water on the move.")


def test_silence_is_an_abstention() -> None:
    """Nothing said is unknown, and the reason is kept."""
    decided = _judge()
    assert isinstance(decided, Abstention)
    assert decided.reason == "nobody said anything of it"


def test_ratings_that_cancel_out_decide_nothing() -> None:
    """One up and one down is a contradiction and not a half."""
    decided = _judge(an_evidence("i_0001", score=1.0), an_evidence("i_0001", id="ev_2", score=-1.0))
    assert isinstance(decided, Abstention)
    assert "contradict" in decided.reason


def test_our_own_faults_are_not_the_policys() -> None:
    """An answer that the machinery broke is not judged, even where the user complained."""
    decided = _judge(an_evidence("i_0001", score=-1.0), outcome=Outcome.FAILED, cause=Cause.INFRASTRUCTURE)
    assert isinstance(decided, Abstention)


def test_the_policys_own_failure_gets_the_floor() -> None:
    """What the policy broke itself counts, or it would learn to break what it cannot do."""
    decided = _judge(outcome=Outcome.FAILED, cause=Cause.POLICY)
    assert isinstance(decided, Verdict)
    assert decided.score == 0.0


def test_evidence_without_signal_has_no_score() -> None:
    """A new question is evidence of what followed, and of nothing else."""
    first = an_interaction(1)
    following = a_follow_up(2, first, "And what is an iceberg?")
    (row,) = gather_evidence([first], feedback={}, next_turns={first.id: following}, now=T0)
    assert (row.kind, row.score, row.text) == (EvidenceKind.NEXT_TURN, None, None)
