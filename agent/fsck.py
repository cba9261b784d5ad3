"""Is what lies in a data directory whole? Reads only, so it may run beside a daemon; takes no locks.

Errors are things lost or damaged. Warnings are remains that cost space and nothing else.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from memory.files import sha256_of
from memory.migrating import HEAD
from memory.store import FILE_NAME
from updater.training import ADAPTER_FILE

_MAX_ROWS = 20
"""Of one kind that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be."""

    is_error: bool
    where: str
    what: str


def check_data_dir(data_dir: Path) -> list[Finding]:
    """Everything that is found, errors first."""
    path = data_dir / FILE_NAME
    if not path.is_file():
        return [_error(str(path), "is not there: nothing was stored here, or it was lost")]
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            found = [*_database(connection), *_chains(connection), *_versions(connection, data_dir)]
    except sqlite3.DatabaseError as problem:
        found = [_error(str(path), f"cannot be read: {problem}; restore it from a backup")]
    found += _remains(data_dir)
    return sorted(found, key=lambda finding: not finding.is_error)


def _database(connection: sqlite3.Connection) -> Iterator[Finding]:
    for (line,) in connection.execute(f"PRAGMA integrity_check({_MAX_ROWS})"):
        if line != "ok":
            yield _error(FILE_NAME, f"is damaged ({line}); restore it from a backup")
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(_MAX_ROWS):
        yield _error(f"{FILE_NAME}, {table} row {row}", f"belongs to a row of {parent} that is not there")
    (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if revision > HEAD:
        yield _error(FILE_NAME, f"was written by a newer release: schema {revision}, this one knows {HEAD}")


def _chains(connection: sqlite3.Connection) -> Iterator[Finding]:
    """An interaction is kept as what it adds to its parent: without that its prompt is gone."""
    orphans = connection.execute(
        "SELECT id, parent_id FROM interactions WHERE chain_depth > 0 AND "
        "(parent_id IS NULL OR parent_id NOT IN (SELECT id FROM interactions))"
    )
    for interaction_id, parent_id in orphans.fetchmany(_MAX_ROWS):
        yield _error(interaction_id, f"continues {parent_id}, which is not there: its prompt cannot be read")


def _versions(connection: sqlite3.Connection, data_dir: Path) -> Iterator[Finding]:
    known = set()
    rows = connection.execute("SELECT number, adapter_path, sha256 FROM versions WHERE adapter_path IS NOT NULL")
    for number, adapter_path, digest in rows.fetchall():
        known.add(adapter_path)
        weights = data_dir / adapter_path / ADAPTER_FILE
        if not weights.is_file():
            yield _error(f"policy@v{number}", f"has lost its weights: {weights} is not there")
        elif sha256_of(weights) != digest:
            yield _error(f"policy@v{number}", f"has other weights than were published: the sha256 of {weights} differs")
    for folder in sorted((data_dir / "versions").glob("v*")):
        if str(folder.relative_to(data_dir)) not in known:
            yield _warning(str(folder), "belongs to no version: a publication that was cut short left it")


def _remains(data_dir: Path) -> Iterator[Finding]:
    for path in sorted(data_dir.glob("**/.*.tmp")):
        yield _warning(str(path), "was being written when its writer ended")


def _error(where: str, what: str) -> Finding:
    return Finding(is_error=True, where=where, what=what)


def _warning(where: str, what: str) -> Finding:
    return Finding(is_error=False, where=where, what=what)
