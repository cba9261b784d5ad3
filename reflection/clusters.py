"""Vectors -> kinds. Imports scikit-learn, so only reflection/worker.py may import this.

Two maps. The broad one, for up to BROAD_LIMIT items: Ward's tree in few dimensions, cut where the cut can be
*predicted* (prediction strength, Tibshirani & Walther 2005): halve the items, cluster both halves, and ask whether
the centroids of one half put together what the other half put together. Silhouette was tried and does not stop: it
splits everyday questions by topic, because the gain of a split is always a little above zero. Measured on MiniLM
vectors, prediction strength is 0.9 and more at the true number of kinds and below 0.65 where there is only one.
The dense one, beyond that: PCA to 32 dimensions, HDBSCAN (Campello et al. 2013), noise to the nearest centroid above
a floor, without which HDBSCAN leaves a third of short requests nowhere. Where it calls more than MAX_NOISE of the items
noise, the kinds are diffuse and the broad map of a sample is used instead.

An item's nearest kind is the one whose *mean* is nearest, not the one whose direction is: the mean of a diffuse kind
is short, and by cosine a tight kind beside it swallows half of it (measured: adjusted Rand index 0.4 against 0.9).
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, AgglomerativeClustering
from sklearn.decomposition import PCA

from reflection.nearest import Vectors, cosine_to_kind, nearest_kind

BROAD_LIMIT = 400
MAX_NOISE = 0.4
_MAX_BROAD_KINDS = 12
_BROAD_DIMENSIONS = 8
_DENSE_DIMENSIONS = 32
_MIN_STRENGTH = 0.7
_NUM_HALVINGS = 20
_FLOOR_PERCENTILE = 5.0

Labels = NDArray[np.int64]


def map_kinds(vectors: Vectors, *, min_size: int, seed: int) -> Labels:
    """(N, D) unit vectors -> (N,) labels 0 .. C-1, biggest kind first; -1 where an item is like none of them."""
    rng = np.random.default_rng(seed)
    if len(vectors) <= BROAD_LIMIT:
        return _biggest_first(broad_map(vectors, min_size=min_size, rng=rng))
    labels = dense_map(vectors, min_size=max(min_size, len(vectors) // 200))
    if labels.max() >= 0 and float((labels < 0).mean()) <= MAX_NOISE:
        return _biggest_first(_place_noise(vectors, labels))
    sample = vectors[np.sort(rng.choice(len(vectors), BROAD_LIMIT, replace=False))]
    return _biggest_first(nearest_kind(vectors, means_of(sample, broad_map(sample, min_size=min_size, rng=rng))))


def broad_map(vectors: Vectors, *, min_size: int, rng: np.random.Generator) -> Labels:
    """As many kinds as can be predicted and are each of `min_size` or more; one where none can."""
    num_items, width = vectors.shape
    if num_items < 2 * min_size:
        return np.zeros(num_items, np.int64)
    dimensions = min(_BROAD_DIMENSIONS, num_items - 1, width)
    points = PCA(dimensions, svd_solver="full").fit_transform(vectors)  # (N, 8)
    halvings = [rng.permutation(num_items) for _ in range(_NUM_HALVINGS)]
    for num_kinds in range(min(_MAX_BROAD_KINDS, num_items // min_size), 1, -1):
        labels = _cut(points, num_kinds)
        if np.bincount(labels).min() < min_size:
            continue
        if prediction_strength(points, num_kinds, halvings) >= _MIN_STRENGTH:
            return labels
    return np.zeros(num_items, np.int64)


def dense_map(vectors: Vectors, *, min_size: int) -> Labels:
    """Kinds as dense regions; -1 is noise."""
    points = PCA(min(_DENSE_DIMENSIONS, *vectors.shape), svd_solver="full").fit_transform(vectors)
    return np.asarray(HDBSCAN(min_cluster_size=min_size, min_samples=3, copy=True).fit_predict(points), np.int64)


def prediction_strength(points: NDArray[np.floating], num_kinds: int, halvings: list[NDArray[np.int64]]) -> float:
    """Mean over halvings, both ways, of the worst kind's share of pairs that the other half also puts together."""
    middle = len(points) // 2
    strengths = []
    for order in halvings:
        for fit, test in ((order[:middle], order[middle:]), (order[middle:], order[:middle])):
            means = means_of(points[fit], _cut(points[fit], num_kinds))
            predicted = nearest_kind(points[test], means)
            strengths.append(_worst_agreement(_cut(points[test], num_kinds), predicted))
    return float(np.mean(strengths))


def means_of(vectors: NDArray[np.floating], labels: Labels) -> Vectors:
    """(C, D): not unit length; the length says how tight a kind is."""
    means = [vectors[labels == label].mean(axis=0) for label in range(int(labels.max()) + 1)]
    return np.asarray(means, np.float32)


def floors_of(vectors: Vectors, labels: Labels) -> NDArray[np.float32]:
    """(C,) cosine below which a new item does not belong: the 5th percentile of members to the mean of the others.

    The others, because in a small and diffuse kind a member's own share lifts its similarity well above that of any
    newcomer.
    """
    floors = []
    for label in range(int(labels.max()) + 1):
        members = vectors[labels == label].astype(np.float64)
        others = members.sum(axis=0, keepdims=True) - members  # (n, D)
        norms = np.maximum(np.linalg.norm(others, axis=1), 1e-12)
        similarities = (members * others).sum(axis=1) / norms
        floors.append(np.percentile(similarities, _FLOOR_PERCENTILE) if len(members) > 1 else -1.0)
    return np.asarray(floors, np.float32)


def _cut(points: NDArray[np.floating], num_kinds: int) -> Labels:
    if len(points) <= num_kinds:
        return np.arange(len(points), dtype=np.int64)
    return np.asarray(AgglomerativeClustering(num_kinds, linkage="ward").fit_predict(points), np.int64)


def _worst_agreement(labels: Labels, predicted: Labels) -> float:
    worst = 1.0
    for label in range(int(labels.max()) + 1):
        together = predicted[labels == label]
        num_pairs = len(together) * (len(together) - 1)
        if num_pairs == 0:
            return 0.0
        sizes = np.bincount(together).astype(np.float64)
        worst = min(worst, float((sizes * (sizes - 1)).sum()) / num_pairs)
    return worst


def _place_noise(vectors: Vectors, labels: Labels) -> Labels:
    """Noise goes to its nearest kind unless it is below that kind's floor."""
    means = means_of(vectors, labels)
    nearest = nearest_kind(vectors, means)
    belongs = cosine_to_kind(vectors, means, nearest) >= floors_of(vectors, labels)[nearest]
    return np.where((labels < 0) & belongs, nearest, labels)


def _biggest_first(labels: Labels) -> Labels:
    present, sizes = np.unique(labels[labels >= 0], return_counts=True)
    renamed = {int(label): rank for rank, label in enumerate(present[np.argsort(-sizes, kind="stable")])}
    return np.asarray([renamed.get(int(label), -1) for label in labels], np.int64)
