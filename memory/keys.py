"""The API keys that were made: their digests, what each may do, and how much was sampled under it."""

from datetime import datetime

from sqlalchemy import Connection, func, select, update

from memory import schema
from memory.database import Database
from memory.records import ApiKey
from memory.rows import insert_records, read_records, select_records

_table = schema.keys
_TOKEN_BYTES = 4  # of one id in interactions.token_ids


class Keys:
    """A key is made once and revoked once; its name is never given again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey) -> bool:
        """False where the name or the digest is taken already; then nothing changes. Durable on return."""

        def write(connection: Connection) -> bool:
            before = connection.execute(select(func.count()).select_from(_table)).scalar_one()
            insert_records(connection, _table, [key])
            return bool(connection.execute(select(func.count()).select_from(_table)).scalar_one() > before)

        return await self._database.write(write)

    async def revoke(self, key_id: str, now: datetime) -> bool:
        """False where no such key is in force. Durable on return."""
        statement = update(_table).where(_table.c.id == key_id, _table.c.revoked_at.is_(None)).values(revoked_at=now)
        return await self._database.write(lambda connection: connection.execute(statement).rowcount > 0)

    async def every(self) -> list[ApiKey]:
        """Revoked ones too, in the order they were made."""
        wanted = select_records(_table).order_by(_table.c.created_at, _table.c.id)
        return await self._database.read(lambda connection: read_records(connection, ApiKey, wanted))

    async def sampled(self, key_id: str, *, since: datetime) -> list[tuple[datetime, int]]:
        """When, and how many tokens were sampled, for each interaction under one key."""
        rows = schema.interactions
        wanted = select(rows.c.created_at, func.length(rows.c.token_ids) / _TOKEN_BYTES).where(
            rows.c.key_id == key_id, rows.c.created_at >= since
        )
        return await self._database.read(
            lambda connection: [(moment, int(count)) for moment, count in connection.execute(wanted)]
        )
