"""Choose between candidates: the smallest step that comes near enough to the teacher on the selection slice.

More passes on few examples overshoot, so the candidates of one training run are tried from the smallest change to the
largest, and the first that closes most of the gap is taken; the gate then asks prompts that selection never saw.
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
    """The chosen candidate, or None where none is worth gating; and what was seen.

    Full-scale candidates first, pass by pass; at the first that is enough, its smaller scales and no more.
    """
    points: dict[str, float] = {}

    async def tried(candidate: Candidate) -> float:
        points[candidate.name] = await gap_closed(candidate)
        return points[candidate.name]

    full = sorted((row for row in candidates if row.scale == 1.0), key=lambda row: row.pass_number)
    chosen: Candidate | None = None
    for candidate in full:
        if await tried(candidate) >= ENOUGH:
            chosen = await smallest_enough(candidate, candidates, tried)
            break
    if chosen is None and full:
        best = max(full, key=lambda row: points[row.name])
        chosen = best if points[best.name] >= WORTH_GATING else None
    return chosen, [SelectionPoint(name=name, gap_closed=share) for name, share in points.items()]


async def smallest_enough(enough: Candidate, candidates: Sequence[Candidate], tried: MeasureCandidate) -> Candidate:
    """The smallest scale of the same pass that is enough as well."""
    smaller = [row for row in candidates if row.pass_number == enough.pass_number and row.scale < 1.0]
    for candidate in sorted(smaller, key=lambda row: row.scale, reverse=True):
        if await tried(candidate) < ENOUGH:
            return enough
        enough = candidate
    return enough


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
