"""Drawing tokens."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent.inference.sampling import choose_token, raw_logprobs, top_logprobs
from memory.records import SamplingParams

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, -20.0])


def draws(params: SamplingParams, count: int = 2000) -> list[int]:
    return [choose_token(LOGITS, params, position=position) for position in range(count)]


def params(**fields: Any) -> SamplingParams:
    return SamplingParams(**{"temperature": 1.0, "seed": 5, **fields})


def test_frequencies_follow_the_distribution() -> None:
    """Over many positions each token comes as often as its probability says."""
    drawn = draws(params())
    for token, probability in enumerate(LOGITS.softmax(-1).tolist()):
        deviation = math.sqrt(probability * (1 - probability) / len(drawn))
        assert abs(drawn.count(token) / len(drawn) - probability) < 4 * deviation + 1e-9


@given(seed=st.integers(-(2**63), 2**64), position=st.integers(0, 10**6))
def test_a_draw_depends_on_seed_and_position_alone(seed: int, position: int) -> None:
    """The same seed and position draw the same token, however often and in whatever order."""
    chosen = SamplingParams(temperature=1.0, seed=seed)
    first = choose_token(LOGITS, chosen, position=position)
    choose_token(LOGITS, chosen, position=position + 1)
    assert choose_token(LOGITS, chosen, position=position) == first


def test_seeds_differ() -> None:
    """Another seed is another stream."""
    assert draws(params(seed=1), 50) != draws(params(seed=2), 50)


@pytest.mark.parametrize(
    ("filters", "possible"),
    [
        ({"top_k": 2}, {0, 1}),
        ({"top_p": 0.6}, {0}),
        ({"top_p": 0.7}, {0, 1}),
        ({"min_p": 0.2}, {0, 1}),
        ({"top_k": 3, "top_p": 0.95}, {0, 1, 2}),
        ({"temperature": 1e-3}, {0}),
        ({}, {0, 1, 2, 3}),
    ],
)
def test_filters_keep_what_they_should(filters: dict[str, float], possible: set[int]) -> None:
    """Only tokens inside every filter are drawn, and each of them is."""
    assert set(draws(params(**filters), 500)) == possible


def test_top_p_reaches_past_the_partial_sort() -> None:
    """A flat distribution needs more than the head that is sorted first."""
    flat = torch.zeros(5000)
    drawn = {choose_token(flat, params(top_p=0.9), position=position) for position in range(3000)}
    assert len(drawn) > 1500


def test_temperature_zero_is_greedy() -> None:
    """Temperature 0 takes the most probable token."""
    assert set(draws(params(temperature=0.0), 20)) == {0}


def test_penalties_and_bias_act_on_sampled_tokens() -> None:
    """Frequency counts, presence does not, and bias adds to the logit."""
    greedy = {"temperature": 0.0}
    assert choose_token(LOGITS, params(**greedy, presence_penalty=1.5), position=0, output_ids=[0]) == 1
    assert choose_token(LOGITS, params(**greedy, frequency_penalty=0.6), position=0, output_ids=[0]) == 0
    assert choose_token(LOGITS, params(**greedy, frequency_penalty=0.6), position=0, output_ids=[0, 0]) == 1
    biased = SamplingParams(temperature=0.0, logit_bias=((4, 50.0),))
    assert choose_token(LOGITS, biased, position=0) == 4
    assert LOGITS.tolist() == [2.0, 1.0, 0.0, -1.0, -20.0]


def test_reported_logprobs_are_of_the_unmodified_distribution() -> None:
    """Raw logprobs equal log-softmax, and alternatives come most probable first."""
    rows = torch.stack((LOGITS, LOGITS.flip(0)))
    expected = rows.log_softmax(-1)
    torch.testing.assert_close(raw_logprobs(rows, torch.tensor([3, 3])), expected[:, 3])
    (first, second) = top_logprobs(rows, 2)
    assert [token for token, _ in first] == [0, 1]
    assert [token for token, _ in second] == [4, 3]
    assert first[1][1] == pytest.approx(float(expected[0, 1]))
