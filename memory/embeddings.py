"""Vectors of interactions, per embedder: what the index is rebuilt from."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, LargeBinary, func, select, type_coerce

from memory import schema
from memory.database import Database
from memory.interactions import select_interactions
from memory.records import Embedding, Interaction
from memory.rows import among, insert_records
from memory.states import Purpose

KINDS = ("request", "context")
_table = schema.embeddings
_vector = type_coerce(_table.c.vector, LargeBinary).label("vector")  # bytes: no detour over tuples


class Embeddings:
    """Append-only; a vector that is there is never replaced."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, rows: Sequence[Embedding]) -> None:
        await self._database.write(lambda connection: insert_records(connection, _table, rows))

    async def missing(self, embed_id: str, limit: int) -> list[Interaction]:
        """Live interactions that lack a vector of some kind under `embed_id`, newest first."""
        interactions = schema.interactions
        is_mine = (_table.c.embed_id == embed_id) & (_table.c.interaction_id == interactions.c.id)
        num_vectors = select(func.count()).select_from(_table).where(is_mine).scalar_subquery()
        wanted = select(interactions.c.id).where(interactions.c.purpose == Purpose.LIVE, num_vectors < len(KINDS))
        wanted = wanted.order_by(interactions.c.seq.desc()).limit(limit)
        return await self._database.read(lambda connection: select_interactions(connection, wanted))

    async def load(self, embed_id: str, kind: str) -> tuple[list[str], list[str], NDArray[np.float32]]:
        """(ids, principals, (N, D) vectors) in order of arrival; (0, 0) where there are none."""
        wanted = (
            select(_table.c.interaction_id, schema.interactions.c.principal, _vector)
            .join(schema.interactions, schema.interactions.c.id == _table.c.interaction_id)
            .where(_table.c.embed_id == embed_id, _table.c.kind == kind)
            .order_by(_table.c.seq)
        )

        def read(connection: Connection) -> tuple[list[str], list[str], NDArray[np.float32]]:
            rows = connection.execute(wanted).all()
            vectors = np.frombuffer(b"".join(row.vector for row in rows), dtype="<f4")
            shaped = vectors.reshape(len(rows), -1) if rows else np.zeros((0, 0), np.float32)  # (N, D)
            return [row.interaction_id for row in rows], [row.principal for row in rows], shaped

        return await self._database.read(read)

    async def watermark(self, embed_id: str, kind: str) -> str:
        """Names this state of the vectors: it changes whenever one comes or goes."""
        wanted = select(func.count(), func.max(_table.c.seq)).where(
            _table.c.embed_id == embed_id, _table.c.kind == kind
        )

        def read(connection: Connection) -> str:
            num_vectors, newest = connection.execute(wanted).one()
            return f"{embed_id}/{kind}/{num_vectors}/{newest or 0}"

        return await self._database.read(read)

    async def for_ids(self, embed_id: str, kind: str, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """(D,) vectors by interaction, where there are any."""
        is_wanted = (_table.c.embed_id == embed_id) & (_table.c.kind == kind) & among(_table.c.interaction_id, ids)
        wanted = select(_table.c.interaction_id, _vector).where(is_wanted)

        def read(connection: Connection) -> dict[str, NDArray[np.float32]]:
            rows = connection.execute(wanted)
            return {row.interaction_id: np.frombuffer(row.vector, dtype="<f4") for row in rows}

        return await self._database.read(read)
