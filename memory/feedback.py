"""What people said of interactions, as a table one can ask."""

from collections.abc import Sequence

from sqlalchemy import func, or_, select

from memory import schema
from memory.database import Database
from memory.interactions import seq_of
from memory.records import Feedback
from memory.rows import among, insert_records, read_records, select_records

_table = schema.feedback


class FeedbackLog:
    """Append-only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, row: Feedback) -> None:
        """Append; durable on return. An unknown interaction is refused by the database."""
        await self._database.write(lambda connection: insert_records(connection, _table, [row]))

    async def for_interactions(self, ids: Sequence[str]) -> dict[str, list[Feedback]]:
        """Oldest first; an interaction without feedback has no entry."""
        wanted = select_records(_table).where(among(_table.c.interaction_id, ids)).order_by(_table.c.seq)
        found: dict[str, list[Feedback]] = {}
        for row in await self._database.read(lambda connection: read_records(connection, Feedback, wanted)):
            found.setdefault(row.interaction_id, []).append(row)
        return found

    async def count(self, *, after_id: str | None = None) -> int:
        """All, or those that arrived after one of them."""
        wanted = select(func.count()).select_from(_table)
        if after_id is not None:
            wanted = wanted.where(_table.c.seq > seq_of(_table.c.seq, _table.c.id, after_id))
        return await self._database.read(lambda connection: int(connection.execute(wanted).scalar_one()))

    async def newest_id(self) -> str | None:
        """The one that arrived last."""
        wanted = select(_table.c.id).order_by(_table.c.seq.desc()).limit(1)
        found: str | None = await self._database.read(lambda connection: connection.execute(wanted).scalar())
        return found

    async def count_negative(self, *, after_id: str | None = None) -> int:
        """How much of it is critical: a score below zero or a correction."""
        wanted = (
            select(func.count()).select_from(_table).where(or_(_table.c.score < 0, _table.c.correction.is_not(None)))
        )
        if after_id is not None:
            wanted = wanted.where(_table.c.seq > seq_of(_table.c.seq, _table.c.id, after_id))
        return await self._database.read(lambda connection: int(connection.execute(wanted).scalar_one()))
