"""Choose between candidates: the smallest step that comes near enough to the teacher on the selection slice.

Few examples can carry a student too far, so a smaller scale of what was trained is taken where it closes most of the
gap as well; the gate then asks prompts that selection never saw.
"""

from collections.abc import Awaitable, Callable, Sequence

from updater.hints import Judge
from updater.rollouts import all_of, mean
from updater.scorecard import SelectionPoint
from updater.targets import Progress, ReadyTarget, measure_progress, teacher_progress
from updater.training import Candidate

ENOUGH = 0.85
"""Share of the gap between live and teacher that a candidate has to close to be taken without looking further."""
WORTH_GATING = 0.25
"""Below this share not even the best candidate goes to the gate."""
NUM_SAMPLES = 3

MeasureCandidate = Callable[[Candidate], Awaitable[float]]
"""Load a candidate, say what share of the gap it closes, unload it."""


async def choose_candidate(
    candidates: Sequence[Candidate], gap_closed: MeasureCandidate
) -> tuple[Candidate | None, list[SelectionPoint]]:
    """The chosen candidate, or None where not even the largest is worth gating; and what was seen.

    From the largest scale down, until one is not enough; the largest may go to the gate with less.
    """
    chosen: Candidate | None = None
    points: list[SelectionPoint] = []
    for candidate in sorted(candidates, key=lambda row: row.scale, reverse=True):
        share = await gap_closed(candidate)
        points.append(SelectionPoint(name=candidate.name, gap_closed=share))
        if share >= ENOUGH or (chosen is None and share >= WORTH_GATING):
            chosen = candidate
        if share < ENOUGH:
            break
    return chosen, points


class SelectionSlice:
    """The selection cases of every target, with what live and teacher score there."""

    def __init__(self, judge: Judge, targets: Sequence[ReadyTarget], *, live: str) -> None:
        self._judge = judge
        self._targets = targets
        self._live = live
        self._ends: dict[str, tuple[Progress, Progress]] = {}

    async def measure_ends(self) -> None:
        """Where each target starts (live) and where it can get to (teacher)."""
        for ready in self._targets:
            cases = ready.selection
            start, end = await all_of(
                [
                    measure_progress(self._judge, ready, cases, model=self._live, num_samples=NUM_SAMPLES),
                    teacher_progress(self._judge, ready, cases, num_samples=NUM_SAMPLES),
                ]
            )
            self._ends[ready.target.cluster_id] = (start, end)

    async def gap_closed(self, model: str) -> float:
        """Mean over targets of (model - live) / (teacher - live)."""
        shares = []
        for ready in self._targets:
            start, end = self._ends[ready.target.cluster_id]
            cases = ready.selection
            reached = await measure_progress(self._judge, ready, cases, model=model, num_samples=NUM_SAMPLES)
            gap = mean(end.scores) - mean(start.scores)
            shares.append((mean(reached.scores) - mean(start.scores)) / gap if gap > 0 else 0.0)
        return mean(shares)
