"""Which of the told teacher's answers teach."""

from updater.rollouts import Answer
from updater.targets import clearest_answers


def answer(*token_ids: int, nats: float) -> Answer:
    return Answer(token_ids=token_ids, ended=True, log_probability=nats)


def test_the_clearest_answers_are_kept_best_first() -> None:
    """Likely under the told teacher per token, and short where what nobody asked for is long."""
    short, odd, long = answer(*[1] * 20, nats=-24), answer(*[2] * 20, nats=-50), answer(*[3] * 64, nats=-70)
    assert clearest_answers([odd, long, short], untold_nats=-17, count=2) == [short.token_ids, long.token_ids]


def test_an_answer_given_twice_counts_once() -> None:
    """Two draws may be the same answer; learning it twice would only overweight it."""
    twice, other = answer(1, nats=-1), answer(2, nats=-3)
    assert clearest_answers([twice, twice, other], untold_nats=-17, count=2) == [(1,), (2,)]
    assert clearest_answers([twice, twice], untold_nats=-17, count=2) == [(1,)]
