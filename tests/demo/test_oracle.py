"""The demonstration's oracle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.demo.oracle import SHORT_MAX_TOKENS, Answer, is_short, summarise, wilson_bounds


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


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_bounds_hold_the_share(case: tuple[int, int]) -> None:
    """The interval lies in [0, 1] and contains the share that was seen."""
    successes, trials = case
    low, high = wilson_bounds(successes, trials)
    assert 0 <= low <= successes / trials + 1e-12
    assert successes / trials - 1e-12 <= high <= 1


def test_wilson_bounds_of_nothing_say_nothing() -> None:
    """Without trials anything is possible."""
    assert wilson_bounds(0, 0) == (0.0, 1.0)


def test_wilson_bounds_of_a_known_case() -> None:
    """8 of 10: the textbook interval 0.490 to 0.943."""
    assert wilson_bounds(8, 10) == pytest.approx((0.490, 0.943), abs=1e-3)
