"""Records to rows and back, for tables whose columns are the record's fields."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, Text, column, func, select, update
from sqlalchemy.dialects.sqlite import Insert, insert

R = TypeVar("R")


def values_of(record: Any) -> dict[str, Any]:
    """The record's own fields by name; nested records stay records (their column knows what to do)."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def select_records(table: Table) -> Select[Any]:
    """All columns but `seq`, which is the table's own affair."""
    return select(*[part for part in table.c if part.name != "seq"])


def read_records(connection: Connection, kind: type[R], statement: Select[Any]) -> list[R]:
    return [kind(**row) for row in connection.execute(statement).mappings()]


def insert_records(connection: Connection, table: Table, records: Iterable[Any]) -> None:
    """Append; a record whose identity is already there is ignored."""
    write_rows(connection, insert(table).on_conflict_do_nothing(), records)


def write_rows(connection: Connection, statement: Insert, records: Iterable[Any]) -> None:
    """Run an insert once per record; nothing for no records."""
    rows = [values_of(record) for record in records]
    if rows:
        connection.execute(statement, rows)


def end_run(connection: Connection, table: Table, ended: Any, running: Any) -> None:
    """Overwrite a running pass or update by its end. Raises LookupError when there is none, or it ended before."""
    if ended.status is running:
        raise ValueError(f"{ended.id} cannot end as {running}")
    statement = update(table).where(table.c.id == ended.id, table.c.status == running)
    if connection.execute(statement, values_of(ended)).rowcount == 0:
        raise LookupError(f"{ended.id} is not running: it has ended before, or never began")


def among(part: Column[Any] | ColumnElement[Any], ids: Sequence[str]) -> ColumnElement[bool]:
    """`part IN ids` with one bound value, however many ids there are."""
    listed = func.json_each(json.dumps(list(ids))).table_valued(column("value", Text))
    return part.in_(select(listed.c.value))
