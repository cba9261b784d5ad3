"""The tables as migrated, as declared, and as the records want them are the same."""

import dataclasses
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Table

from memory import records, schema
from memory.chains import Link
from memory.database import open_database
from memory.migrating import HEAD, MIGRATIONS

TABLES = {
    schema.feedback: records.Feedback,
    schema.evidence: records.Evidence,
    schema.verdicts: records.Verdict,
    schema.abstentions: records.Abstention,
    schema.assignments: records.Assignment,
    schema.clusters: records.Cluster,
    schema.passes: records.ReflectionPass,
    schema.reflections: records.Reflection,
    schema.examples: records.Example,
    schema.updates: records.Update,
    schema.uses: records.Use,
    schema.versions: records.Version,
    schema.embeddings: records.Embedding,
    schema.keys: records.ApiKey,
}


def names_of(record: type) -> set[str]:
    return {field.name for field in dataclasses.fields(record)}


async def test_migrations_make_what_the_metadata_declares(tmp_path: Path) -> None:
    """Running all migrations and declaring the tables afresh give the same database."""

    def differences(connection: Connection) -> list[object]:
        def is_ours(_: object, name: str | None, kind: str, *__: object) -> bool:
            return not (kind == "table" and str(name).startswith(schema.LEXICAL_TABLE))

        options = {"compare_type": True, "include_object": is_ours}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata))

    async with open_database(tmp_path / "db") as database:
        assert await database.read(differences) == []


async def test_every_table_is_strict(tmp_path: Path) -> None:
    """A text in a column of numbers is an error, not a surprise for whoever reads it."""
    query = "SELECT name FROM pragma_table_list WHERE type = 'table' AND NOT strict AND schema = 'main'"
    async with open_database(tmp_path / "db") as database:
        lax = await database.read(lambda connection: set(connection.exec_driver_sql(query).scalars()))
    assert lax <= {"alembic_version", "sqlite_schema", "sqlite_sequence"}


@pytest.mark.parametrize(("table", "record"), TABLES.items(), ids=lambda value: getattr(value, "name", ""))
def test_columns_are_the_fields_of_the_record(table: Table, record: type) -> None:
    """No field is lost on its way into the store."""
    assert {column.name for column in table.c} - {"seq"} == names_of(record)


def test_interactions_keep_every_field(tmp_path: Path) -> None:
    """Messages and prompt are kept as what they add to the parent's, all else as it is."""
    stored = {column.name for column in schema.interactions.c} - {"seq", "transcript_sha256"}
    assert stored == names_of(records.Interaction) - {"messages", "prompt_token_ids"} | names_of(Link)


def test_the_newest_migration_is_known_without_alembic() -> None:
    """The daemon asks for it by name, so as not to load Alembic at each start."""
    newest = max((MIGRATIONS / "versions").glob("0*.py"))
    assert newest.name.startswith(f"{HEAD}_")
    assert f'revision = "{HEAD}"' in newest.read_text(encoding="utf-8")


async def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    """Migrations that have run are not run again."""
    query = "SELECT group_concat(sql) FROM sqlite_master"
    dumps = []
    for _ in range(2):
        async with open_database(tmp_path / "db") as database:
            dumps.append(await database.read(lambda connection: connection.exec_driver_sql(query).scalar_one()))
    assert dumps[0] == dumps[1]
