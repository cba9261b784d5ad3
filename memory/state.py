"""Small named values that outlive the process: due times, cursors."""

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from memory import schema
from memory.database import Database


class State:
    """Text by key; the newest value wins."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: str) -> str | None:
        wanted = select(schema.state.c.value).where(schema.state.c.key == key)
        found: str | None = await self._database.read(lambda connection: connection.execute(wanted).scalar())
        return found

    async def set(self, key: str, value: str) -> None:
        """Durable on return."""
        statement = insert(schema.state).values(key=key, value=value)
        upsert = statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value})

        def write(connection: Connection) -> None:
            connection.execute(upsert)

        await self._database.write(write)

    async def remove(self, key: str) -> None:
        """Durable on return; no error where there is none."""
        statement = delete(schema.state).where(schema.state.c.key == key)

        def write(connection: Connection) -> None:
            connection.execute(statement)

        await self._database.write(write)
