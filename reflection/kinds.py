"""Which kind each request is: vectors from the embedder, a map drawn by the child when it is due, else the old one.

The daemon's side of clustering: knows the store and the child's two files, never scikit-learn.
"""

import asyncio
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.child import RunChild, read_progress
from memory.embedder import Embedder
from memory.records import Assignment, Cluster, Embedding, Interaction, new_id
from memory.store import Store
from reflection.kind_map import KindMap, load_map, save_map
from reflection.labels import keep_label, name_clusters
from reflection.map_job import MapJob, MapResult, read_result, write_job
from reflection.nearest import Vectors, cosine_to_kind, nearest_kind, unit
from reflection.settings import ReflectionSettings

Report = Callable[[str, int, int], None]

_MAX_MAP_ITEMS = 5000
_MAX_MAP_AGE = timedelta(days=7)
_MAX_GROWTH = 1.5
_MAX_OUTLIERS = 0.2
_EMBED_BATCH = 64
_EMBED_TIMEOUT_S = 60.0
"""For one batch; a pass is in no hurry."""
_WORKER_NICENESS = 10
_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDeps:
    """What finding kinds needs."""

    store: Store
    embedder: Embedder
    embed_id: str
    """What the embedder's vectors are stored under."""
    run_child: RunChild
    settings: ReflectionSettings
    work_dir: Path
    """A directory of this pass's own; made when needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where each request stands now."""

    cluster_of: dict[str, str | None]
    similarity: dict[str, float]
    """Cosine to the cluster's mean, for those that have one."""
    has_map: bool

    def state(self, interaction_id: str) -> str:
        if not self.has_map:
            return "awaiting_map"
        return "outlier" if self.cluster_of.get(interaction_id) is None else "assigned"


async def request_vectors(deps: KindDeps, requests: Sequence[Interaction], report: Report) -> Vectors:
    """(N, D) unit request vectors: stored ones, and the missing ones embedded and stored."""
    embed_id = deps.embed_id
    ids = [request.id for request in requests]
    known = await deps.store.embeddings.for_ids(embed_id, "request", ids)
    missing = [request for request in requests if request.id not in known]
    for start in range(0, len(missing), _EMBED_BATCH):
        batch = missing[start : start + _EMBED_BATCH]
        texts = [request.last_user_text for request in batch]
        vectors = await deps.embedder.embed(texts, timeout_s=_EMBED_TIMEOUT_S)
        rows = [
            Embedding(interaction_id=one.id, embed_id=embed_id, kind="request", vector=tuple(vector.tolist()))
            for one, vector in zip(batch, vectors, strict=True)
        ]
        await deps.store.embeddings.add(rows)
        known.update((one.id, vector) for one, vector in zip(batch, vectors, strict=True))
        report("embed", start + len(batch), len(missing))
    return np.stack([known[identity] for identity in ids]) if ids else np.zeros((0, 0), np.float32)


async def place_requests(
    deps: KindDeps,
    requests: Sequence[Interaction],
    vectors: Vectors,
    *,
    places: Mapping[str, Assignment],
    now: datetime,
    report: Report,
) -> Placement:
    """Every request on the map; the map is drawn anew when it is due. Clusters are written to the store."""
    drawn = await load_map(deps.store)
    if _is_map_due(drawn, requests, places, settings=deps.settings, embed_id=deps.embed_id, now=now):
        drawn, fixed = await _draw_map(deps, requests, vectors, places=places, now=now, report=report)
    else:
        fixed = {one.id: place.cluster_id for one in requests if (place := places.get(one.id)) and place.cluster_id}
    if drawn is None:
        return Placement(cluster_of={one.id: None for one in requests}, similarity={}, has_map=False)
    placement = _place(drawn, requests, vectors, fixed)
    await _write_clusters(deps, drawn, requests, placement, now=now)
    return placement


def _is_map_due(
    drawn: KindMap | None,
    requests: Sequence[Interaction],
    places: Mapping[str, Assignment],
    *,
    settings: ReflectionSettings,
    embed_id: str,
    now: datetime,
) -> bool:
    """First map, another embedder, grown by half, too many outliers, or a week old."""
    if len(requests) < settings.min_map_items:
        return False
    if drawn is None or drawn.embed_id != embed_id:
        return True
    states = Counter(place.state for one in requests if (place := places.get(one.id)))
    num_new = len(requests) - states.total()
    has_outliers = states["outlier"] > _MAX_OUTLIERS * len(requests)
    is_old = num_new > 0 and now - drawn.drawn_at > _MAX_MAP_AGE
    return len(requests) >= _MAX_GROWTH * drawn.size or has_outliers or is_old


async def _draw_map(
    deps: KindDeps,
    requests: Sequence[Interaction],
    vectors: Vectors,
    *,
    places: Mapping[str, Assignment],
    now: datetime,
    report: Report,
) -> tuple[KindMap, dict[str, str | None]]:
    """The new map, and the cluster of each request it was drawn from."""
    old = [cluster for cluster in await deps.store.judgements.clusters() if cluster.size > 0]
    chosen = _sample(len(requests))
    old_index = {cluster.id: index for index, cluster in enumerate(old)}
    old_of = [places[requests[i].id].cluster_id if requests[i].id in places else None for i in chosen]
    job = MapJob(
        vectors=vectors[chosen],
        old_labels=np.asarray([old_index.get(identity or "", -1) for identity in old_of], np.int64),
        old_centroids=_centroids(old),
        min_size=deps.settings.min_cluster_size,
        seed=_SEED,
    )
    result = await _run_worker(deps, job, report)
    ids = [old[match].id if match >= 0 else new_id("cl") for match in result.matched.tolist()]
    drawn = KindMap(
        embed_id=deps.embed_id,
        drawn_at=now,
        size=len(requests),
        cluster_ids=tuple(ids),
        means=result.means,
        floors=result.floors,
    )
    labels = zip(chosen.tolist(), result.labels.tolist(), strict=True)
    return drawn, {requests[i].id: ids[label] if label >= 0 else None for i, label in labels}


def _centroids(clusters: Sequence[Cluster]) -> Vectors:
    """(K, D) unit; (0, 0) for none."""
    return (
        np.stack([np.asarray(one.centroid, np.float32) for one in clusters])
        if clusters
        else np.zeros((0, 0), np.float32)
    )


def _sample(num_requests: int) -> NDArray[np.int64]:
    """Indices to draw the map from: all, or a seeded sample in order."""
    if num_requests <= _MAX_MAP_ITEMS:
        return np.arange(num_requests, dtype=np.int64)
    rng = np.random.default_rng(_SEED)
    return np.sort(rng.choice(num_requests, _MAX_MAP_ITEMS, replace=False)).astype(np.int64)


async def _run_worker(deps: KindDeps, job: MapJob, report: Report) -> MapResult:
    workdir = deps.work_dir / "map"
    await asyncio.to_thread(_prepare, workdir, job)
    try:
        await deps.run_child(
            "reflection.worker",
            workdir,
            threads=1,
            niceness=_WORKER_NICENESS,
            timeout_s=deps.settings.worker_timeout_s,
            on_line=lambda line: report(*read_progress(line)),
        )
        return await asyncio.to_thread(read_result, workdir)
    finally:
        await asyncio.to_thread(shutil.rmtree, workdir, ignore_errors=True)


def _prepare(workdir: Path, job: MapJob) -> None:
    workdir.mkdir(parents=True, exist_ok=True)
    write_job(workdir, job)


def _place(
    drawn: KindMap, requests: Sequence[Interaction], vectors: Vectors, fixed: Mapping[str, str | None]
) -> Placement:
    """Those of the map where the map put them, the rest to the nearest kind, if it is near enough."""
    if not drawn.cluster_ids:
        return Placement(cluster_of={one.id: None for one in requests}, similarity={}, has_map=True)
    index = {identity: position for position, identity in enumerate(drawn.cluster_ids)}
    nearest = nearest_kind(vectors, drawn.means)
    known = [index.get(fixed.get(one.id) or "", -1) for one in requests]
    kinds = np.where(np.asarray(known) >= 0, known, nearest)
    cosines = cosine_to_kind(vectors, drawn.means, kinds)
    cluster_of: dict[str, str | None] = {}
    similarity: dict[str, float] = {}
    for position, one in enumerate(requests):
        kind = int(kinds[position])
        belongs = known[position] >= 0 or (one.id not in fixed and cosines[position] >= drawn.floors[kind])
        cluster_of[one.id] = drawn.cluster_ids[kind] if belongs else None
        if belongs:
            similarity[one.id] = float(cosines[position])
    return Placement(cluster_of=cluster_of, similarity=similarity, has_map=True)


async def _write_clusters(
    deps: KindDeps, drawn: KindMap, requests: Sequence[Interaction], placement: Placement, *, now: datetime
) -> None:
    """Every cluster as it stands; one that the map no longer has is kept with size 0, for its history."""
    old = {cluster.id: cluster for cluster in await deps.store.judgements.clusters()}
    members: dict[str, list[Interaction]] = defaultdict(list)
    for one in requests:
        members[placement.cluster_of[one.id] or ""].append(one)
    names = name_clusters(
        {identity: [one.last_user_text for one in members[identity]] for identity in drawn.cluster_ids}
    )
    centroids = unit(drawn.means)
    rows = [
        replace(gone, size=0, updated_at=now) for gone in old.values() if gone.id not in drawn.cluster_ids and gone.size
    ]
    for position, identity in enumerate(drawn.cluster_ids):
        before, name = old.get(identity), names[identity]
        row = Cluster(
            id=identity,
            label=keep_label(before.label, name) if before else name,
            centroid=tuple(centroids[position].tolist()),
            size=len(members[identity]),
            num_principals=len({one.principal for one in members[identity]}),
            trend=before.trend if before else None,
            created_at=before.created_at if before else now,
            updated_at=now,
        )
        rows.append(row)
    await deps.store.judgements.put_clusters(rows)
    await save_map(deps.store, drawn)
