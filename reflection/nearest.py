"""Which kind a vector belongs to, given the kinds' means. Plain arithmetic, shared by the map and by the daemon."""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def nearest_kind(vectors: NDArray[np.floating], means: NDArray[np.floating]) -> NDArray[np.int64]:
    """(N, D), (C, D) -> (N,) index of the mean at the smallest Euclidean distance."""
    distances = (means**2).sum(axis=1)[None] - 2.0 * vectors @ means.T  # (N, C), up to |vector| squared
    return np.asarray(distances.argmin(axis=1), np.int64)


def cosine_to_kind(vectors: Vectors, means: Vectors, kinds: NDArray[np.int64]) -> Vectors:
    """(N, D) unit vectors, (C, D), (N,) -> (N,) cosine of each vector to the mean of its kind."""
    return np.asarray((vectors * unit(means)[kinds]).sum(axis=1), np.float32)


def unit(vectors: Vectors) -> Vectors:
    """Rows scaled to length one; a zero row stays zero."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float32)
