"""Verdicts of the gate from measured figures; what it measures is tested against a real engine in the e2e test."""

from memory.records import Interaction
from updater.gate import change, judge_target, protected_score
from updater.plan import Protected
from updater.scorecard import Measure, Rung, State
from updater.update import reasons_against


def target(live: float, candidate: float, p_value: float, *, harmful: bool = False) -> list[Measure]:
    return [
        Measure(name="hindsight log-ratio", unit="nats", live=live, candidate=candidate, p_value=p_value),
        Measure(name="quality", unit="nats", live=-1.0, candidate=-2.0, harmful=harmful),
    ]


def protected(num_prompts: int) -> Protected:
    interaction: Interaction = None  # type: ignore[assignment]  # only counted
    return Protected(cluster_id="c", label="stories", replay=(), gate=(interaction,) * num_prompts)


def test_a_significant_gain_improves_a_target() -> None:
    """Moved in the right direction, beyond chance."""
    assert judge_target(target(-15, 8, 0.01), num_prompts=8)[0] is State.IMPROVED


def test_a_gain_within_noise_does_not() -> None:
    """Moved, but chance explains it."""
    assert judge_target(target(-15, -14, 0.4), num_prompts=8)[0] is State.NOT_IMPROVED


def test_a_target_must_not_pay_with_quality() -> None:
    """Answers that the hinted teacher itself finds unlikely are harm, however short they are."""
    assert judge_target(target(-15, 8, 0.01, harmful=True), num_prompts=8)[0] is State.HARMED


def test_too_few_prompts_cannot_improve() -> None:
    """Fewer prompts than a test needs: insufficient, and that blocks a target."""
    assert judge_target(target(-15, 8, 0.01), num_prompts=4)[0] is State.INSUFFICIENT


def test_a_candidate_equal_to_live_harms_nothing() -> None:
    """Coupled seeds give the same answers, so no figure moves."""
    same = change("mean length", "tokens", [64.0] * 8, [64.0] * 8, tolerance=6.4)
    assert not same.harmful
    assert protected_score(protected(8), Rung.BEHAVIOUR, [same], num_samples=4).state is State.UNHARMED


def test_a_significant_change_beyond_tolerance_harms() -> None:
    """Nobody asked for stories to change: shorter ones are harm."""
    shorter = change("mean length", "tokens", [64.0] * 8, [40.0, 42, 38, 41, 39, 44, 40, 37], tolerance=6.4)
    assert shorter.harmful
    assert protected_score(protected(8), Rung.BEHAVIOUR, [shorter], num_samples=4).state is State.HARMED


def test_a_change_within_tolerance_is_let_be() -> None:
    """Significant but small is not harm; large but rare is not significant."""
    small = change("mean length", "tokens", [64.0] * 8, [62.0] * 8, tolerance=6.4)
    rare = change("mean length", "tokens", [64.0] * 8, [64.0] * 7 + [4.0], tolerance=6.4)
    assert not small.harmful
    assert not rare.harmful


def test_few_protected_prompts_are_said_to_be_insufficient() -> None:
    """A cluster that cannot be tested is shown as such and does not block."""
    same = change("mean length", "tokens", [64.0] * 3, [60.0] * 3, tolerance=6.4)
    score = protected_score(protected(3), Rung.BEHAVIOUR, [same], num_samples=4)
    assert score.state is State.INSUFFICIENT
    assert reasons_against([score]) == []


def test_more_tolerance_never_turns_a_pass_into_a_fall() -> None:
    """The verdict is monotone in the tolerance."""
    old, new = [60.0, 61, 59, 62, 63, 58], [50.0, 52, 49, 55, 51, 50]
    harmful = [change("mean length", "tokens", old, new, tolerance=t).harmful for t in (0, 5, 10, 20)]
    assert harmful == sorted(harmful, reverse=True)
