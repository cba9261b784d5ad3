"""The few tests that work on few items. Values in, values out."""

from collections.abc import Sequence

import numpy as np

EXACT_LIMIT = 12
"""Up to this many pairs all sign patterns are enumerated (4,096)."""
NUM_DRAWS = 20_000


def sign_flip_p(differences: Sequence[float], *, seed: int = 0) -> float:
    """One-sided p-value that the mean of paired differences is above zero.

    Randomisation test: under the null each difference is as likely to have the other sign. The unit is the prompt
    (average its samples first), because samples of one prompt are not independent.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.size == 0:
        return 1.0
    if values.size <= EXACT_LIMIT:
        patterns = np.array(np.meshgrid(*[[-1.0, 1.0]] * values.size)).reshape(values.size, -1)  # (N, 2**N)
    else:
        patterns = np.random.default_rng(seed).choice([-1.0, 1.0], size=(values.size, NUM_DRAWS))  # (N, draws)
    means = values @ patterns / values.size
    tolerance = 1e-12 * (1 + np.abs(values).max())
    extreme = int((means >= values.mean() - tolerance).sum())
    if values.size <= EXACT_LIMIT:
        return float(extreme / means.size)
    return float((extreme + 1) / (means.size + 1))


def two_sided_p(differences: Sequence[float], *, seed: int = 0) -> float:
    flipped = [-difference for difference in differences]
    return min(1.0, 2 * min(sign_flip_p(differences, seed=seed), sign_flip_p(flipped, seed=seed)))
