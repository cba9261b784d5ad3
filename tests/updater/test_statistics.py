"""Randomisation tests against plain enumeration."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from updater.statistics import sign_flip_p, two_sided_p

differences = st.lists(st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 3)), min_size=1, max_size=8)


@settings(deadline=None)
@given(differences)
def test_exact_p_equals_naive_enumeration(values: list[float]) -> None:
    """Up to the limit the p-value is the share of sign patterns whose mean is at least the one seen."""
    seen = sum(values)
    patterns = list(product((-1, 1), repeat=len(values)))
    at_least = sum(sum(s * v for s, v in zip(signs, values, strict=True)) >= seen - 1e-9 for signs in patterns)
    assert sign_flip_p(values) == pytest.approx(at_least / len(patterns))


def test_five_prompts_can_reach_five_percent() -> None:
    """Five gains of five is the least that a one-sided test at 5 % can see."""
    assert sign_flip_p([1.0, 2.0, 1.5, 0.5, 3.0]) == pytest.approx(1 / 32)
    assert sign_flip_p([1.0, 2.0, 1.5, 0.5]) > 0.05


def test_identical_models_are_never_significant() -> None:
    """All differences zero: p is one on both sides."""
    assert sign_flip_p([0.0] * 8) == 1.0
    assert two_sided_p([0.0] * 8) == 1.0


def test_many_prompts_are_sampled_and_agree_with_the_direction() -> None:
    """Above the limit random patterns stand in for all: a clear gain is clear, a clear loss is not a gain."""
    gains = [0.5 + 0.01 * i for i in range(40)]
    assert sign_flip_p(gains) < 0.001
    assert sign_flip_p([-gain for gain in gains]) > 0.99


def test_nothing_measured_is_no_evidence() -> None:
    """Without a single pair there is no significance."""
    assert sign_flip_p([]) == 1.0
