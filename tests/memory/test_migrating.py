"""A data directory of an older release: nothing is lost on the way up, and the way back stays open."""

import sqlite3
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from memory.database import APPLICATION_ID, DatabaseError
from memory.migrating import HEAD, MIGRATIONS
from memory.store import FILE_NAME, open_store


def make_old(path: Path, revision: str = "0001") -> None:
    """A file as a release with that schema left it, with a key of its state."""
    path.touch()
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.exec_driver_sql("INSERT INTO state VALUES ('a', 'kept')")
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    engine.dispose()


def state_of(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        return connection.execute("SELECT key, value FROM state").fetchall()


async def test_an_older_file_is_brought_up_with_a_copy_of_it_beside(tmp_path: Path) -> None:
    """The copy is what the older release can still open."""
    make_old(tmp_path / FILE_NAME)
    async with open_store(tmp_path) as store:
        assert await store.state.get("a") == "kept"
        assert await store.keys.every() == []
    copy = tmp_path / f"{FILE_NAME}.before-{HEAD}"
    assert state_of(copy) == [("a", "kept")]
    assert copy.stat().st_mode & 0o077 == 0
    with sqlite3.connect(f"file:{copy}?mode=ro", uri=True) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]


async def test_a_new_file_and_a_current_one_get_no_copy(tmp_path: Path) -> None:
    for _ in range(2):
        async with open_store(tmp_path):
            pass
    assert not (tmp_path / f"{FILE_NAME}.before-{HEAD}").exists()


async def test_a_newer_file_is_refused_as_it_is(tmp_path: Path) -> None:
    """What this release does not understand it does not touch."""
    async with open_store(tmp_path):
        pass
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseError, match="newer release"):
        async with open_store(tmp_path):
            pass
    assert not (tmp_path / f"{FILE_NAME}.before-{HEAD}").exists()
