"""Stable ids: which new kind is which old cluster. Imports scipy, so only reflection/worker.py may import this.

Maximum-weight assignment (Kuhn 1955) on the overlap of members (Jaccard), centroid cosine as tie-break. A
pair is accepted when the overlap is 0.3 or more, or the centroids' cosine 0.85 or more.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

MIN_JACCARD = 0.3
MIN_COSINE = 0.85
_TIE_BREAK = 0.1


def match_clusters(
    labels: NDArray[np.int64],
    old_labels: NDArray[np.int64],
    *,
    centroids: NDArray[np.float32],
    old_centroids: NDArray[np.float32],
) -> list[int]:
    """(N,) new and old labels, (C, D) and (K, D) unit centroids -> per new kind the old one, or -1."""
    num_new, num_old = len(centroids), len(old_centroids)
    if num_new == 0 or num_old == 0:
        return [-1] * num_new
    jaccard = np.zeros((num_new, num_old))  # (C, K)
    for new in range(num_new):
        for old in range(num_old):
            both = int(((labels == new) & (old_labels == old)).sum())
            either = int(((labels == new) | (old_labels == old)).sum())
            jaccard[new, old] = both / either if either else 0.0
    comparable = centroids.shape[1] == old_centroids.shape[1]  # another embedder: members decide alone
    cosine = centroids @ old_centroids.T if comparable else np.zeros((num_new, num_old), np.float32)
    rows, columns = linear_sum_assignment(jaccard + _TIE_BREAK * cosine, maximize=True)
    matched = [-1] * num_new
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        if jaccard[row, column] >= MIN_JACCARD or cosine[row, column] >= MIN_COSINE:
            matched[row] = column
    return matched
