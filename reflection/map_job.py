"""What the daemon and the clustering child hand each other: two files of arrays in one directory. No scikit-learn."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_JOB_FILE = "job.npz"
_RESULT_FILE = "map.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapJob:
    """One map to draw."""

    vectors: NDArray[np.float32]
    """(N, D) unit request vectors."""
    old_labels: NDArray[np.int64]
    """(N,) index into `old_centroids` of the cluster each item is in now; -1 for none."""
    old_centroids: NDArray[np.float32]
    """(K, D)."""
    min_size: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapResult:
    """The map as drawn."""

    labels: NDArray[np.int64]
    """(N,) 0 .. C-1, or -1 for an outlier."""
    means: NDArray[np.float32]
    """(C, D), not unit length."""
    floors: NDArray[np.float32]
    """(C,) cosine a newcomer needs."""
    matched: NDArray[np.int64]
    """(C,) the old cluster that each kind is, or -1."""


def write_job(directory: Path, job: MapJob) -> None:
    np.savez(
        directory / _JOB_FILE,
        vectors=job.vectors,
        old_labels=job.old_labels,
        old_centroids=job.old_centroids,
        min_size=job.min_size,
        seed=job.seed,
    )


def read_job(directory: Path) -> MapJob:
    with np.load(directory / _JOB_FILE, allow_pickle=False) as arrays:
        return MapJob(
            vectors=arrays["vectors"],
            old_labels=arrays["old_labels"],
            old_centroids=arrays["old_centroids"],
            min_size=int(arrays["min_size"]),
            seed=int(arrays["seed"]),
        )


def write_result(directory: Path, result: MapResult) -> None:
    np.savez(
        directory / _RESULT_FILE,
        labels=result.labels,
        means=result.means,
        floors=result.floors,
        matched=result.matched,
    )


def read_result(directory: Path) -> MapResult:
    with np.load(directory / _RESULT_FILE, allow_pickle=False) as arrays:
        return MapResult(
            labels=arrays["labels"],
            means=arrays["means"],
            floors=arrays["floors"],
            matched=arrays["matched"],
        )
