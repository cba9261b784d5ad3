"""What the updater did: its runs, what each did with which interaction, and the versions that came of it."""

from collections.abc import Sequence
from typing import Any, TypeVar

from sqlalchemy import Select
from sqlalchemy.dialects.sqlite import insert

from memory import schema
from memory.database import Database
from memory.records import Update, Use, Version
from memory.rows import end_run, insert_records, read_records, select_records, write_rows
from memory.states import UpdateStatus

R = TypeVar("R")
Rows = list[R]  # `list` is a method below


class Updates:
    """Append-only; an update ends exactly once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, started: Update) -> None:
        await self._insert(schema.updates, started)

    async def end(self, ended: Update) -> None:
        """Write the one end of a running update. Raises LookupError when there is none to end."""
        await self._database.write(lambda connection: end_run(connection, schema.updates, ended, UpdateStatus.RUNNING))

    async def get(self, update_id: str) -> Update | None:
        return await self._one(Update, select_records(schema.updates).where(schema.updates.c.id == update_id))

    async def list(self, limit: int = 20) -> Rows[Update]:
        """Newest first."""
        return await self._read(
            Update, select_records(schema.updates).order_by(schema.updates.c.seq.desc()).limit(limit)
        )

    async def add_uses(self, rows: Sequence[Use]) -> None:
        await self._database.write(lambda connection: insert_records(connection, schema.uses, rows))

    async def uses_of(self, interaction_id: str) -> Rows[Use]:
        """What updates did with one interaction, oldest first."""
        table = schema.uses
        return await self._read(
            Use, select_records(table).where(table.c.interaction_id == interaction_id).order_by(table.c.seq)
        )

    async def uses_in(self, update_id: str) -> Rows[Use]:
        """What one update did with which interaction."""
        table = schema.uses
        return await self._read(Use, select_records(table).where(table.c.update_id == update_id).order_by(table.c.seq))

    async def add_version(self, version: Version) -> None:
        """Append; a number that is taken is refused by the database."""
        await self._insert(schema.versions, version)

    async def versions(self) -> Rows[Version]:
        """By number."""
        return await self._read(Version, select_records(schema.versions).order_by(schema.versions.c.number))

    async def version(self, number: int) -> Version | None:
        return await self._one(Version, select_records(schema.versions).where(schema.versions.c.number == number))

    async def live(self, base_fingerprint: str) -> Version | None:
        """The highest number of this base model's lineage."""
        table = schema.versions
        lineage = select_records(table).where(table.c.base_fingerprint == base_fingerprint)
        return await self._one(Version, lineage.order_by(table.c.number.desc()).limit(1))

    async def _one(self, kind: type[R], wanted: Select[Any]) -> R | None:
        found = await self._read(kind, wanted)
        return found[0] if found else None

    async def _read(self, kind: type[R], wanted: Select[Any]) -> Rows[R]:
        return await self._database.read(lambda connection: read_records(connection, kind, wanted))

    async def _insert(self, table: Any, record: object) -> None:
        await self._database.write(lambda connection: write_rows(connection, insert(table), [record]))
