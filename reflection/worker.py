"""The clustering child: `python -m reflection.worker WORKDIR` reads a job, draws the map, writes the result.

Knows nothing of the store; dies with its parent. Progress goes to standard output, one JSON object a line.
"""

import sys
from pathlib import Path

import numpy as np

from memory.child import die_with_parent, say_progress
from reflection.clusters import floors_of, map_kinds, means_of
from reflection.map_job import MapJob, MapResult, read_job, write_result
from reflection.matching import match_clusters
from reflection.nearest import unit


def draw_map(job: MapJob) -> MapResult:
    """Kinds, their means and floors, and which old cluster each of them is."""
    labels = map_kinds(job.vectors, min_size=job.min_size, seed=job.seed)
    means = means_of(job.vectors, labels)
    matched = match_clusters(labels, job.old_labels, centroids=unit(means), old_centroids=job.old_centroids)
    return MapResult(
        labels=labels,
        means=means,
        floors=floors_of(job.vectors, labels),
        matched=np.asarray(matched, np.int64),
    )


def main() -> None:
    die_with_parent()
    workdir = Path(sys.argv[1])
    job = read_job(workdir)
    say_progress("map", 0, len(job.vectors))
    write_result(workdir, draw_map(job))
    say_progress("map", len(job.vectors), len(job.vectors))


if __name__ == "__main__":
    main()
