from updater.hints import MAX_HINTS, TriedWording, candidate_hints, clearest


def tried(words: str, gap: float, naturalness: float, *, num_tokens: int = 25) -> TriedWording:
    return TriedWording(words=words, told=(((1,) * num_tokens,),), gap_nats=gap, naturalness_nats=naturalness)


def test_a_scolding_does_not_become_the_hint() -> None:
    """Of wordings that work alike, the one with the most natural answers is taken, not the one with the largest gap."""
    plain, scolding = tried("one short sentence please", 22.0, -1.5), tried("you are rambling", 26.0, -2.1)
    assert clearest([scolding, plain])[0] == plain


def test_a_wording_that_hardly_works_is_not_taken_for_its_nature() -> None:
    """Answers that are natural because nothing changed do not count."""
    works, weak = tried("one short sentence please", 22.0, -1.5), tried("more detail please", 2.0, -1.1)
    assert clearest([weak, works]) == [works]


def test_a_wording_that_is_obeyed_half_of_the_time_is_not_taken_for_its_nature() -> None:
    """Long answers are natural; per token little of them was asked for."""
    obeyed, half = tried("one short sentence please", 23.9, -1.68), tried("not all that", 20.9, -1.66, num_tokens=35)
    assert clearest([half, obeyed])[0] == obeyed


def test_one_wording_far_above_the_others_does_not_shut_them_out() -> None:
    """As measured: an excuse in a wording moves the teacher most and brings the least natural answers."""
    phone, plain = tried("on my phone, one short sentence", 40.4, -2.5), tried("one short sentence please", 23.6, -1.49)
    scolding, detail = tried("you are rambling", 21.8, -2.28), tried("more detail please", 2.7, -1.14, num_tokens=64)
    assert clearest([phone, scolding, detail, plain])[0] == plain
    assert detail not in clearest([phone, scolding, detail, plain])


def test_one_wording_is_enough() -> None:
    """With a single user there is nothing to compare, even where it moves the wrong way."""
    only = tried("hm", -1.0, -1.1)
    assert clearest([only]) == [only]


def test_everybody_is_heard_before_anybody_twice() -> None:
    """A person with many wordings does not crowd out the others, and one wording is tried once."""
    said = {"p1": ["a", "b", "c"], "p2": ["a", "d"], "p3": ["e"]}
    assert candidate_hints(said) == ["a", "e", "b", "d", "c"]
    assert len(candidate_hints({"p1": [str(n) for n in range(50)]})) == MAX_HINTS
