from updater.hints import TriedWording, most_natural


def tried(words: str, gap: float, naturalness: float) -> TriedWording:
    return TriedWording(words=words, told=((1, 2),), gap_nats=gap, naturalness_nats=naturalness)


def test_a_scolding_does_not_become_the_hint() -> None:
    """Of wordings that work alike, the one with the most natural answers is taken, not the one with the largest gap."""
    plain, scolding = tried("one short sentence please", 22.0, -1.5), tried("you are rambling", 26.0, -2.1)
    assert most_natural([scolding, plain]) == plain


def test_a_wording_that_hardly_works_is_not_taken_for_its_nature() -> None:
    """Answers that are natural because nothing changed do not count."""
    works, weak = tried("one short sentence please", 22.0, -1.5), tried("more detail please", 2.0, -1.1)
    assert most_natural([weak, works]) == works


def test_one_wording_is_enough() -> None:
    """With a single user there is nothing to compare, even where it moves the wrong way."""
    only = tried("hm", -1.0, -1.1)
    assert most_natural([only]) == only
