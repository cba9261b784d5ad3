"""The smallest step that is enough, and no more than that."""

from pathlib import Path

from updater.selection import ENOUGH, choose_candidate
from updater.training import Candidate


def candidate(scale: float) -> Candidate:
    return Candidate(
        name=f"scale-{scale:.2f}",
        directory=Path("unused"),
        scale=scale,
        sha256="0",
        delta_norm=1.0,
        proof_logprobs=((-1.0,),),
    )


CANDIDATES = [candidate(scale) for scale in (0.5, 0.75, 1.0)]


class Scripted:
    """Shares of the gap by scale, and in which order they were asked."""

    def __init__(self, shares: dict[float, float]) -> None:
        self.shares = shares
        self.asked: list[float] = []

    async def __call__(self, row: Candidate) -> float:
        self.asked.append(row.scale)
        return self.shares[row.scale]


async def test_the_smallest_step_that_is_enough_is_taken() -> None:
    """What was trained is scaled down as long as it stays enough."""
    shares = Scripted({1.0: 0.95, 0.75: ENOUGH, 0.5: 0.3})
    chosen, points = await choose_candidate(CANDIDATES, shares)
    assert chosen == candidate(0.75)
    assert shares.asked == [1.0, 0.75, 0.5]
    assert len(points) == 3


async def test_the_whole_step_is_gated_when_it_is_not_enough() -> None:
    """Part of the way is still worth the gate's time; a smaller part is not asked about."""
    shares = Scripted({1.0: 0.6})
    chosen, _ = await choose_candidate(CANDIDATES, shares)
    assert chosen == candidate(1.0)
    assert shares.asked == [1.0]


async def test_nothing_is_chosen_where_nothing_moved() -> None:
    """A run that taught nothing ends before the gate."""
    chosen, points = await choose_candidate(CANDIDATES, Scripted({1.0: 0.1}))
    assert chosen is None
    assert len(points) == 1
