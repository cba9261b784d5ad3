"""The map that newcomers are placed on, as it is kept between passes: clusters' centroids, and what they lack."""

import json
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from memory.store import Store
from reflection.nearest import Vectors

_MAP_KEY = "reflection.map"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindMap:
    """The map that newcomers are placed on: kept in the store's state beside the clusters' unit centroids."""

    embed_id: str
    drawn_at: datetime
    size: int
    """Requests it was drawn from."""
    cluster_ids: tuple[str, ...]
    means: Vectors
    """(C, D)."""
    floors: Vectors
    """(C,)."""


async def save_map(store: Store, drawn: KindMap) -> None:
    lengths = np.linalg.norm(drawn.means, axis=1).tolist()
    kinds = zip(drawn.cluster_ids, lengths, drawn.floors.tolist(), strict=True)
    value = {
        "embed_id": drawn.embed_id,
        "drawn_at": drawn.drawn_at.isoformat(),
        "size": drawn.size,
        "kinds": [{"cluster_id": identity, "length": length, "floor": floor} for identity, length, floor in kinds],
    }
    await store.state.set(_MAP_KEY, json.dumps(value))


async def load_map(store: Store) -> KindMap | None:
    text = await store.state.get(_MAP_KEY)
    if text is None:
        return None
    value = json.loads(text)
    clusters = {cluster.id: cluster for cluster in await store.judgements.clusters()}
    kinds = value["kinds"]
    means = [np.asarray(clusters[kind["cluster_id"]].centroid, np.float32) * kind["length"] for kind in kinds]
    return KindMap(
        embed_id=value["embed_id"],
        drawn_at=datetime.fromisoformat(value["drawn_at"]),
        size=value["size"],
        cluster_ids=tuple(kind["cluster_id"] for kind in kinds),
        means=np.stack(means) if means else np.zeros((0, 0), np.float32),
        floors=np.asarray([kind["floor"] for kind in kinds], np.float32),
    )
