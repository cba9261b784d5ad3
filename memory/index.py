"""Vectors by principal, searched exactly. A cache of the store's embeddings: losing it loses nothing.

One flat faiss index a principal: search cost follows one person's memory, no filter stands between a question and the
wrong person's vectors, and nothing is approximate (a filtered graph index finds a fifth of what it should). Owned by
the event loop: not to be called from threads.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from memory.files import write_whole


class VectorIndex:
    """Unit vectors of one embedder and kind."""

    def __init__(self, dim: int | None = None) -> None:
        """`dim`: D; None takes it from the first vectors."""
        faiss.omp_set_num_threads(1)  # the lists are short: more threads only spin
        self.dim = dim
        self._partitions: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._owners: dict[str, str] = {}
        self._next_number = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, interaction_id: str) -> bool:
        return interaction_id in self._numbers

    def add(self, ids: Sequence[str], principals: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Add (N, D) unit vectors; an id that is there is ignored. Raises ValueError on another D."""
        if not ids:
            return
        self.dim = vectors.shape[1] if self.dim is None else self.dim
        if vectors.shape != (len(ids), self.dim):
            raise ValueError(f"vectors of shape {vectors.shape} do not fit {len(ids)} ids and dimension {self.dim}")
        rows_of: dict[str, list[int]] = {}
        for row, (interaction_id, principal) in enumerate(zip(ids, principals, strict=True)):
            if interaction_id not in self._numbers:
                self._register(interaction_id, principal)
                rows_of.setdefault(principal, []).append(row)
        for principal, rows in rows_of.items():
            numbers = np.array([self._numbers[ids[row]] for row in rows], dtype=np.int64)
            self._partition(principal).add_with_ids(np.ascontiguousarray(vectors[rows], dtype=np.float32), numbers)

    def search(self, principal: str, vector: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """The k nearest of this principal, (id, cosine), best first; fewer where there are fewer."""
        partition = self._partitions.get(principal)
        if partition is None or k < 1:
            return []
        query = np.ascontiguousarray(vector.reshape(1, -1), dtype=np.float32)
        cosines, numbers = partition.search(query, min(k, partition.ntotal))
        found = zip(numbers[0].tolist(), cosines[0].tolist(), strict=True)
        return [(self._ids[number], cosine) for number, cosine in found if number >= 0]

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """(D,) vectors of those that are there."""
        known = [one for one in ids if one in self._numbers]
        return {one: self._partitions[self._owners[one]].reconstruct(self._numbers[one]) for one in known}

    def remove(self, ids: Sequence[str]) -> None:
        """Forget; an unknown id is ignored."""
        for interaction_id in ids:
            number = self._numbers.pop(interaction_id, None)
            if number is None:
                continue
            del self._ids[number]
            principal = self._owners.pop(interaction_id)
            partition = self._partitions[principal]
            partition.remove_ids(np.array([number], dtype=np.int64))
            if partition.ntotal == 0:
                del self._partitions[principal]

    def snapshot(self, path: Path, watermark: str) -> None:
        """Write vectors to `path` and what they are beside it, the manifest last: a snapshot is whole or not there.
        `watermark` is the caller's own name for the state of the store that this is a copy of."""
        ids = list(self._numbers)
        vectors = self.vectors(ids)
        matrix = np.stack([vectors[one] for one in ids]) if ids else np.zeros((0, self.dim or 0), np.float32)  # (N, D)
        data = matrix.astype("<f4").tobytes()
        manifest = {
            "watermark": watermark,
            "dim": self.dim or 0,
            "sha256": hashlib.sha256(data).hexdigest(),
            "ids": ids,
            "principals": [self._owners[one] for one in ids],
        }
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, data)
        write_whole(_manifest_path(path), json.dumps(manifest).encode())

    @classmethod
    def load(cls, path: Path, watermark: str) -> "VectorIndex | None":
        """The snapshot of this very state of the store; None when there is none, or it is damaged or stale."""
        try:
            manifest = json.loads(_manifest_path(path).read_bytes())
            data = path.read_bytes()
        except (OSError, ValueError):
            return None
        if manifest["watermark"] != watermark or manifest["sha256"] != hashlib.sha256(data).hexdigest():
            return None
        index = cls(manifest["dim"] or None)
        vectors = np.frombuffer(data, dtype="<f4").reshape(-1, max(manifest["dim"], 1))
        index.add(manifest["ids"], manifest["principals"], vectors)
        return index

    def _register(self, interaction_id: str, principal: str) -> None:
        number = self._next_number
        self._next_number += 1
        self._numbers[interaction_id] = number
        self._ids[number] = interaction_id
        self._owners[interaction_id] = principal

    def _partition(self, principal: str) -> Any:
        if principal not in self._partitions:
            assert self.dim is not None
            self._partitions[principal] = faiss.IndexIDMap2(faiss.IndexFlatIP(self.dim))
        return self._partitions[principal]


def _manifest_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")
