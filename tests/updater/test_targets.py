"""Which of the told teacher's answers teach."""

from updater.targets import best_of


def test_the_answers_that_do_most_of_what_was_asked_are_kept_best_first() -> None:
    assert best_of([(1,), (2,), (3,), (4,)], [0.5, 3.0, -1.0, 2.0], 2) == [(2,), (4,)]


def test_the_same_answer_teaches_once() -> None:
    assert best_of([(1,), (1,), (2,)], [3.0, 3.0, 1.0], 2) == [(1,), (2,)]
    assert best_of([(1,), (1,)], [3.0, 3.0], 2) == [(1,)]
