"""The demonstration's oracle."""

import pytest

from agent.demo.oracle import SHORT_MAX_TOKENS, Answer, is_short, summarise


def answer(num_tokens: int, *, ended: bool) -> Answer:
    return Answer(prompt="What is fog?", text="A cloud.", num_tokens=num_tokens, ended=ended, model="policy@v0")


def test_short_means_ended_by_itself_in_time() -> None:
    """An answer that was cut off is not short, however few its tokens; one that ended too late is not either."""
    assert is_short(answer(SHORT_MAX_TOKENS, ended=True))
    assert not is_short(answer(SHORT_MAX_TOKENS + 1, ended=True))
    assert not is_short(answer(5, ended=False))


def test_summary_counts() -> None:
    """A summary is the counts and means of its answers."""
    summary = summarise([answer(10, ended=True), answer(64, ended=False)])
    assert (summary.num_answers, summary.num_short, summary.mean_tokens, summary.ended_share) == (2, 1, 37.0, 0.5)


def test_nothing_audited_is_an_error() -> None:
    """No answers is not a share of zero."""
    with pytest.raises(ValueError, match="nothing"):
        summarise([])
