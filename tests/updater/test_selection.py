"""The smallest step that is enough, and no more than that."""

from pathlib import Path

from updater.selection import ENOUGH, choose_candidate
from updater.training import Candidate


def candidate(pass_number: int, scale: float) -> Candidate:
    return Candidate(
        name=f"pass-{pass_number}-scale-{scale:.2f}",
        directory=Path("unused"),
        pass_number=pass_number,
        scale=scale,
        sha256="0",
        delta_norm=1.0,
        proof_logprobs=((-1.0,),),
    )


CANDIDATES = [candidate(number, scale) for number in (1, 2, 3) for scale in (0.5, 0.75, 1.0)]


class Scripted:
    """Shares of the gap by (pass, scale), and in which order they were asked."""

    def __init__(self, shares: dict[tuple[int, float], float]) -> None:
        self.shares = shares
        self.asked: list[tuple[int, float]] = []

    async def __call__(self, row: Candidate) -> float:
        self.asked.append((row.pass_number, row.scale))
        return self.shares[(row.pass_number, row.scale)]


async def test_the_smallest_step_that_is_enough_is_taken() -> None:
    """The first pass that is enough is scaled down as long as it stays enough; later passes are not even asked."""
    shares = Scripted({(1, 1.0): 0.5, (2, 1.0): 0.95, (2, 0.75): ENOUGH, (2, 0.5): 0.3})
    chosen, points = await choose_candidate(CANDIDATES, shares)
    assert chosen == candidate(2, 0.75)
    assert shares.asked == [(1, 1.0), (2, 1.0), (2, 0.75), (2, 0.5)]
    assert len(points) == 4


async def test_the_best_is_gated_when_none_is_enough() -> None:
    """Part of the way is still worth the gate's time."""
    chosen, _ = await choose_candidate(CANDIDATES, Scripted({(1, 1.0): 0.3, (2, 1.0): 0.6, (3, 1.0): 0.5}))
    assert chosen == candidate(2, 1.0)


async def test_nothing_is_chosen_where_nothing_moved() -> None:
    """A run that taught nothing ends before the gate."""
    chosen, points = await choose_candidate(CANDIDATES, Scripted({(1, 1.0): 0.0, (2, 1.0): 0.1, (3, 1.0): -0.2}))
    assert chosen is None
    assert len(points) == 3
