"""Prove the swap: what the engine serves under a name is what the trainer made, and is not its parent.

At fp32 the serving path must give the trainer's logprobs within 1e-3, and differ from the parent's by many times that.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from memory.completions import InferenceClient

MAX_ERROR = 1e-3
"""Largest |difference in logprob| between serving path and trainer at fp32."""
MIN_MOVE = 10 * MAX_ERROR
"""Least largest |difference in logprob| to the parent."""


class SwapUnproven(RuntimeError):
    """The engine does not serve what the trainer made; the message says which proof failed."""


class SwapProof(BaseModel):
    """Largest absolute differences of logprobs over the proof prompts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    served_vs_trainer: float
    served_vs_parent: float


async def prove_swap(
    engine: InferenceClient,
    name: str,
    prompts: Sequence[tuple[int, ...]],
    *,
    trained: Sequence[Sequence[float]],
    parent: Sequence[Sequence[float]],
) -> SwapProof:
    """Raises SwapUnproven."""
    served = [(await engine.score(name, prompt)).logprobs for prompt in prompts]
    proof = SwapProof(
        served_vs_trainer=largest_difference(served, trained), served_vs_parent=largest_difference(served, parent)
    )
    if not proof.served_vs_trainer <= MAX_ERROR:
        raise SwapUnproven(
            f"{name} serves other logprobs than the trainer computed: max difference {proof.served_vs_trainer:.2e}, "
            f"allowed {MAX_ERROR:.0e}"
        )
    if not proof.served_vs_parent >= MIN_MOVE:
        raise SwapUnproven(
            f"{name} cannot be told from its parent: max difference {proof.served_vs_parent:.2e}, needed {MIN_MOVE:.0e}"
        )
    return proof


def largest_difference(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float:
    return max(abs(a - b) for left, right in zip(ours, theirs, strict=True) for a, b in zip(left, right, strict=True))
