"""What has to hold in demo_learning, each with what was seen. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from agent.demo.oracle import Answer, summarise
from agent.demo.scenario import Kind
from benchmarks.common import bootstrap_interval
from benchmarks.learning.arms import Answers, Arm, Learned

TARGET_SHARE = 0.85
FROZEN_MAX_SHARE = 0.15
"""The frozen policy must do it hardly ever, or there is nothing to learn."""
NOISE_TOKENS = 1.0
"""Mean story length may move so far without any statistics."""
NOISE_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    ok: bool
    seen: str


def check_seed(one: Learned, frozen: Answers) -> list[Check]:
    """What our arm must do under every seed."""
    name = f"seed {one.seed}"
    published = Check(
        name=f"{name}: published", ok=one.published, seen=f"{one.update['status']}: {one.update['reason']}"
    )
    if not one.published:
        return [published]
    summary = summarise(one.answers[Kind.QUESTION])
    harm = harm_of(one.answers, frozen)
    quality = one.quality
    return [
        published,
        Check(
            name=f"{name}: at least {TARGET_SHARE:.0%} of the questions answered in one short sentence",
            ok=summary.short_share >= TARGET_SHARE,
            seen=f"{summary.num_short} of {summary.num_answers}",
        ),
        Check(name=f"{name}: stories unharmed", ok=not harm["harmed"], seen=_harm_line(harm)),
        Check(
            name=f"{name}: answers as likely under the told teacher as its own",
            ok=quality is not None and quality.not_below,
            seen="not measured" if quality is None else quality.line,
        ),
    ]


def check_arms(first: Learned, arms: Mapping[str, Arm]) -> list[Check]:
    """What the other arms must show, each only where the plan has it."""
    frozen = summarise(first.frozen[Kind.QUESTION])
    checks = [
        Check(
            name="frozen: hardly ever one short sentence",
            ok=frozen.short_share <= FROZEN_MAX_SHARE,
            seen=f"{frozen.num_short} of {frozen.num_answers}",
        )
    ]
    known: dict[str, Callable[[Arm], Check]] = {
        "memory only": partial(_check_memory, first),
        "no replay, no gate": partial(_check_ungated, first),
        "permuted feedback": _check_permuted,
        "contrary wish": _check_contrary,
    }
    return checks + [known[name](arm) for name, arm in arms.items()]


def harm_of(answers: Answers, frozen: Answers) -> dict[str, Any]:
    """Stories under a version against the frozen policy: same prompts, same draws, paired."""
    tokens = paired(answers[Kind.STORY], frozen[Kind.STORY], lambda answer: float(answer.num_tokens))
    endings = paired(answers[Kind.STORY], frozen[Kind.STORY], lambda answer: float(answer.ended))
    harmed = _moved(tokens, NOISE_TOKENS) or _moved(endings, NOISE_SHARE)
    return {"tokens": tokens, "endings": endings, "harmed": harmed}


def _moved(difference: Mapping[str, float], noise: float) -> bool:
    """Either way: nobody asked for it."""
    return abs(difference["mean"]) > noise and not difference["low"] <= 0 <= difference["high"]


def paired(ours: Sequence[Answer], theirs: Sequence[Answer], value: Callable[[Answer], float]) -> dict[str, float]:
    """Mean of the paired difference with its 95 % bootstrap interval."""
    differences = [value(a) - value(b) for a, b in zip(ours, theirs, strict=True)]
    low, high = bootstrap_interval(differences)
    return {"mean": round(fmean(differences), 3), "low": round(low, 3), "high": round(high, 3)}


def _harm_line(harm: Mapping[str, Any]) -> str:
    tokens, endings = harm["tokens"], harm["endings"]
    return (
        f"tokens {tokens['mean']:+.1f} [{tokens['low']:+.1f}, {tokens['high']:+.1f}], "
        f"endings {endings['mean']:+.1%} [{endings['low']:+.1%}, {endings['high']:+.1%}]"
    )


def _check_memory(first: Learned, arm: Arm) -> Check:
    memory = summarise(arm.answers[Kind.QUESTION])
    ours = summarise(first.answers[Kind.QUESTION]).short_share if first.answers else 0.0
    return Check(
        name="memory only: less than weights",
        ok=ours > memory.short_share,
        seen=f"{memory.num_short} of {memory.num_answers}, ours {ours:.0%}",
    )


def _check_ungated(first: Learned, arm: Arm) -> Check:
    if not arm.answers:
        return Check(name="no replay, no gate: hurts the stories", ok=False, seen=arm.reason)
    harm = harm_of(arm.answers, first.frozen)
    return Check(name="no replay, no gate: hurts the stories", ok=harm["harmed"], seen=_harm_line(harm))


def _check_permuted(arm: Arm) -> Check:
    # An arm that failed has shown nothing: only a decision not to publish counts.
    decided = arm.status in {"skipped", "rejected"}
    return Check(name="permuted feedback: not published", ok=decided, seen=f"{arm.status}: {arm.reason}")


def _check_contrary(arm: Arm) -> Check:
    name = "contrary wish: answers grow longer"
    if not arm.answers:
        return Check(name=name, ok=False, seen=f"{arm.status}: {arm.reason}")
    grown = paired(arm.answers[Kind.QUESTION], arm.base_answers[Kind.QUESTION], lambda answer: float(answer.num_tokens))
    seen = f"tokens {grown['mean']:+.1f} [{grown['low']:+.1f}, {grown['high']:+.1f}]"
    return Check(name=name, ok=grown["low"] > 0, seen=seen)
