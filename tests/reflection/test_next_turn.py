"""The next-turn detector on hand-written turns: one set it was written with, one it never saw."""

import pytest

from memory.records import Message
from reflection.next_turn import Exchange, Reading, exchange_of, read_next_turn
from tests.reflection.builders import rows_of

GLACIER = ("What is a glacier?", "A glacier is a large body of dense ice that moves slowly under its own weight.")


def _read(turn: str) -> Reading:
    return read_next_turn(Exchange(question=GLACIER[0], answer=GLACIER[1], turn=turn))


def _polarity(reading: Reading) -> str:
    if reading.score is None:
        return "none"
    return "negative" if reading.score < 0 else "positive"


def _precision_and_recall(file_name: str, polarity: str) -> tuple[float, float]:
    rows = rows_of(file_name)
    read = [
        _polarity(read_next_turn(Exchange(question=row["question"], answer=row["answer"], turn=row["turn"])))
        for row in rows
    ]
    hits = sum(got == row["polarity"] == polarity for got, row in zip(read, rows, strict=True))
    return hits / max(1, read.count(polarity)), hits / sum(row["polarity"] == polarity for row in rows)


@pytest.mark.parametrize("polarity", ["negative", "positive"])
def test_the_known_turns_are_read_right(polarity: str) -> None:
    """On the turns it was written with, the detector is right at least nine times in ten, both ways."""
    precision, recall = _precision_and_recall("next_turns.jsonl", polarity)
    assert (precision >= 0.9, recall >= 0.9) == (True, True), (precision, recall)


@pytest.mark.parametrize(("polarity", "recall_floor"), [("negative", 0.4), ("positive", 0.6)])
def test_unseen_turns_are_missed_and_not_misread(polarity: str, recall_floor: float) -> None:
    """On turns written after the cues, what it says is right; much is missed, and then it abstains."""
    precision, recall = _precision_and_recall("next_turns_held_out.jsonl", polarity)
    assert precision >= 0.9, precision
    assert recall >= recall_floor, recall


def test_requests_are_told_from_feedback() -> None:
    """A turn that only talks about the answer is no request; one that also asks for something new is."""
    rows = rows_of("next_turns.jsonl")
    wrong = [
        row["turn"]
        for row in rows
        if read_next_turn(Exchange(question=row["question"], answer=row["answer"], turn=row["turn"])).is_request
        != row["is_request"]
    ]
    assert len(wrong) <= 0.05 * len(rows), wrong


def test_the_words_are_the_users_own() -> None:
    """What is kept of a mixed turn is the complaint, word for word, without the new question."""
    reading = _read("Way too long. One short sentence would have been enough. What is a volcano?")
    assert reading.words == "Way too long. One short sentence would have been enough."
    assert reading.is_request


def test_the_opposite_wish_is_a_wish_too() -> None:
    """Nothing in the detector prefers one length over another."""
    short, long = _read("Please answer in one short sentence."), _read("Please explain it at length.")
    assert short.score == long.score
    assert short.score is not None


def test_asking_the_same_again_counts_against_the_answer() -> None:
    """The same question twice says that the first answer did not serve."""
    assert (_read("what is a glacier").score or 0.0) < 0


def test_a_neighbouring_question_is_no_repeat() -> None:
    """Two questions that differ in one name are two questions."""
    exchange = Exchange(
        question="What is the capital of Austria?", answer="Vienna.", turn="What is the capital of Australia?"
    )
    assert read_next_turn(exchange).score is None


def test_a_wish_outweighs_the_thanks_said_with_it() -> None:
    """Polite people complain politely."""
    assert (_read("Thanks, but that's too complicated for me.").score or 0.0) < 0


@pytest.mark.parametrize("turn", ["How much salt is too much salt for a dog?", "How can I stop snoring?", "ok", ""])
def test_no_signal_is_no_score(turn: str) -> None:
    """Questions about the world that hold a cue word, and turns without content, are unknown: not zero."""
    assert _read(turn).score is None


def test_the_first_turn_follows_nothing() -> None:
    """There is no exchange to read before anything was answered."""
    assert exchange_of([Message(role="user", content="Too long!")]) is None


def test_the_exchange_is_taken_from_the_messages() -> None:
    """Question, answer and turn are the last three, system prompts aside."""
    messages = [
        Message(role="system", content="Be kind."),
        Message(role="user", content="Q"),
        Message(role="assistant", content="A"),
        Message(role="user", content="T"),
    ]
    assert exchange_of(messages) == Exchange(question="Q", answer="A", turn="T")
