"""Which of the told teacher's answers teach."""

from updater.rollouts import Answer
from updater.targets import most_obedient


def answer(*token_ids: int) -> Answer:
    return Answer(token_ids=token_ids, ended=True, log_probability=-1.0)


def test_the_most_obedient_answers_are_kept_best_first() -> None:
    """By R per token: an answer that rambles has collected more in all."""
    short, deaf, long = answer(*[1] * 20), answer(*[2] * 20), answer(*[3] * 64)
    assert most_obedient([deaf, long, short], [2.0, 25.0, 20.0], count=2) == [short.token_ids, long.token_ids]


def test_an_answer_given_twice_counts_once() -> None:
    """Two draws may be the same answer; learning it twice would only overweight it."""
    twice, other = answer(1), answer(2)
    assert most_obedient([twice, twice, other], [3.0, 3.0, 1.0], count=2) == [(1,), (2,)]
    assert most_obedient([twice, twice], [3.0, 3.0], count=2) == [(1,)]
