"""How much stands behind a change: principals, shares with bounds, and the remedy that follows. Pure.

Means are over principals of their own means, so one busy user is one voice. Weights are proposed only when enough
principals want the change, enough examples show how, and most judged answers of the cluster failed beyond doubt.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from memory.records import Abstention, Interaction, Verdict
from memory.states import Cause, Outcome, Remedy
from reflection.judge import GOOD_FROM
from reflection.settings import ReflectionSettings

_Z95 = 1.959964
_MIN_FAULTS = 3
MIN_FAILED = 0.6
"""Share of the judged answers that must have failed beyond doubt before weights change. A bare majority leaves nearly
half of the people content, and complaints that were dealt out by chance reach it (EXPERIMENTS.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What the judged members of one cluster add up to."""

    num_interactions: int
    num_judged: int
    num_failed: int
    num_faults: int
    """Served with a fault that is not the policy's."""
    num_wishes: int
    """Failed, with a hint or a correction."""
    num_principals: int
    supporters: int
    """Principals with at least one failed interaction that carries a hint or a correction."""
    score: float | None
    """Mean over principals of their mean verdict."""
    good_low: float | None
    good_high: float | None
    """95 % Wilson bounds of the share of judged interactions that were good."""

    @property
    def failed_low(self) -> float:
        """Lower bound of the share that failed."""
        return 0.0 if self.good_high is None else 1.0 - self.good_high


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """95 % score interval of a share (Wilson 1927): sensible also at 0 and 1, where the normal one collapses."""
    if trials == 0:
        return 0.0, 1.0
    share, z2 = successes / trials, _Z95**2
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


def is_failed(verdict: Verdict) -> bool:
    return verdict.score < GOOD_FROM


def is_wish(verdict: Verdict) -> bool:
    """It failed, and someone said how it should have been."""
    return is_failed(verdict) and bool(verdict.hint or verdict.correction)


def weigh(members: Sequence[Interaction], judged: Mapping[str, Verdict | Abstention]) -> Support:
    """Add up one cluster."""
    pairs = [(member, verdict) for member in members if isinstance(verdict := judged.get(member.id), Verdict)]
    by_principal: dict[str, list[float]] = defaultdict(list)
    for member, verdict in pairs:
        by_principal[member.principal].append(verdict.score)
    num_good = sum(not is_failed(verdict) for _, verdict in pairs)
    low, high = wilson(num_good, len(pairs)) if pairs else (None, None)
    means = [sum(scores) / len(scores) for scores in by_principal.values()]
    wishes = [member.principal for member, verdict in pairs if is_wish(verdict)]
    return Support(
        num_interactions=len(members),
        num_judged=len(pairs),
        num_failed=len(pairs) - num_good,
        num_faults=sum(is_fault(member) for member in members),
        num_wishes=len(wishes),
        num_principals=len({member.principal for member in members}),
        supporters=len(set(wishes)),
        score=sum(means) / len(means) if means else None,
        good_low=low,
        good_high=high,
    )


def is_fault(interaction: Interaction) -> bool:
    """Something other than the policy or the client broke it."""
    faults = {Cause.ENVIRONMENT, Cause.INFRASTRUCTURE, Cause.GRADER}
    return interaction.outcome is not Outcome.OK and interaction.cause in faults


def choose_remedy(support: Support, settings: ReflectionSettings) -> tuple[Remedy, str]:
    """The remedy and the sentence that defends it."""
    if support.num_faults >= _MIN_FAULTS and 2 * support.num_faults >= support.num_interactions:
        return Remedy.FAULT, f"{support.num_faults} were broken by tools or by us, not by the policy."
    if support.num_wishes == 0:
        return Remedy.NOTHING, _why_nothing(support)
    needed = min(settings.min_supporters, support.num_principals)
    if support.supporters < needed:
        return Remedy.MEMORY, f"Only {support.supporters} of the {needed} people needed ask for a change."
    if support.failed_low <= MIN_FAILED:
        return Remedy.MEMORY, (
            f"The evidence is mixed: perhaps only {support.failed_low:.0%} failed, and {MIN_FAILED:.0%} is needed."
        )
    if support.num_wishes < settings.min_examples:
        return Remedy.MEMORY, (
            f"{support.num_wishes} failures say how it should have been; weights need {settings.min_examples}."
        )
    people = "person asks" if support.supporters == 1 else "people ask"
    return Remedy.WEIGHTS, f"{support.supporters} {people} for a change, in {support.num_wishes} interactions."


def _why_nothing(support: Support) -> str:
    if support.num_judged == 0:
        return "Nobody has said anything that could be judged."
    if support.num_failed == 0:
        return "Nothing failed: good examples are kept for replay."
    return "Some failed, but nobody said how it should have been."


def median_count(owners: Sequence[str]) -> float:
    """Median over principals of how many entries are theirs; 0 for none."""
    return float(median(Counter(owners).values())) if owners else 0.0
