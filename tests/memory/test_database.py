"""One writer, group commit, and a file that is private, whole and ours."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from memory.database import Database, DatabaseError, open_database
from memory.store import FILE_NAME, open_store

WRITES_UNTIL_KILLED = """
import asyncio, sys
from pathlib import Path
from memory.store import open_store

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        async def write(worker):
            number = 0
            while True:
                await store.state.set(f"{worker}", str(number))
                print(worker, number, flush=True)
                number += 1
        await asyncio.gather(*map(write, range(4)))

asyncio.run(main())
"""


def put(key: str, value: str) -> Callable[[Connection], str]:
    """A job that writes one row of `state`."""

    def job(connection: Connection) -> str:
        connection.exec_driver_sql("INSERT INTO state (key, value) VALUES (?, ?)", (key, value))
        return value

    return job


def keys(connection: Connection) -> list[str]:
    return list(connection.exec_driver_sql("SELECT key FROM state ORDER BY key").scalars())


def write_until_killed(data_dir: Path) -> dict[str, str]:
    """The last number that each worker of a killed process got acknowledged."""
    command = [sys.executable, "-c", WRITES_UNTIL_KILLED, str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}) as process:
        assert process.stdout is not None
        acknowledged = dict(process.stdout.readline().split() for _ in range(200))
        process.send_signal(signal.SIGKILL)
        acknowledged |= dict(line.split() for line in process.stdout if line.endswith("\n"))
    return acknowledged


async def test_directory_and_file_are_private(tmp_path: Path) -> None:
    """Nobody but the owner can read what people said."""
    async with open_store(tmp_path / "deep" / "data") as store:
        await store.state.set("key", "value")
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "deep" / "data").iterdir()}
    assert (tmp_path / "deep" / "data").stat().st_mode & 0o777 == 0o700
    assert modes.pop(FILE_NAME) == 0o600
    assert set(modes.values()) <= {0o600}


async def test_writer_and_reader_are_set_up_as_promised(tmp_path: Path) -> None:
    """Commits are synced, foreign keys hold, readers neither write nor checkpoint."""

    def pragmas(connection: Connection) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "query_only", "wal_autocheckpoint")
        return {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names}

    async with open_database(tmp_path / "db") as database:
        writer, reader = await database.write(pragmas), await database.read(pragmas)
        with pytest.raises(DBAPIError):
            await database.read(put("a", "1"))
    assert writer["journal_mode"] == "wal"
    assert (writer["synchronous"], writer["foreign_keys"], writer["wal_autocheckpoint"]) == (2, 1, 1000)
    assert (reader["query_only"], reader["wal_autocheckpoint"]) == (1, 0)


async def test_what_queues_up_is_committed_together(tmp_path: Path) -> None:
    """Many writers at once need far fewer commits than writes, and each gets its own result."""
    async with open_database(tmp_path / "db") as database:
        results = await asyncio.gather(*(database.write(put(f"{n:03}", str(n))) for n in range(200)))
        assert results == [str(n) for n in range(200)]
        assert await database.read(keys) == [f"{n:03}" for n in range(200)]


async def test_a_failing_job_fails_alone(tmp_path: Path) -> None:
    """An error belongs to the one who caused it, and leaves nothing half written."""

    def write_then_fail(connection: Connection) -> None:
        put("half", "1")(connection)
        raise LookupError("on purpose")

    async with open_database(tmp_path / "db") as database:
        jobs = [put("a", "1"), write_then_fail, put("a", "2"), put("b", "1")]
        results = await asyncio.gather(*(database.write(job) for job in jobs), return_exceptions=True)
        assert results[0] == "1"
        assert isinstance(results[1], LookupError)
        assert isinstance(results[2], IntegrityError)
        assert results[3] == "1"
        assert await database.read(keys) == ["a", "b"]


async def test_a_write_outlives_its_cancelled_caller(tmp_path: Path) -> None:
    """A client that leaves cannot take back what was already handed over."""
    async with open_database(tmp_path / "db") as database:
        waiting = asyncio.ensure_future(database.write(put("a", "1")))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await database.write(put("b", "1"))
        assert await database.read(keys) == ["a", "b"]


async def test_a_full_disk_refuses_writes_and_keeps_reads(tmp_path: Path) -> None:
    """What was acknowledged stays readable while there is no space, and writing goes on when there is again."""

    def limit(num_pages: int) -> Callable[[Connection], object]:
        return lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count = {num_pages}").scalar_one()

    async with open_database(tmp_path / "db") as database:
        await database.write(put("before", "1"))
        await database.write(limit(1))  # SQLite takes the present size as the least
        writes = [database.write(put(f"big{n}", "x" * 100_000)) for n in range(3)]
        failures = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(failure, Exception) for failure in failures)
        assert await database.read(keys) == ["before"]
        await database.write(limit(1_000_000))
        await database.write(put("after", "1"))
        assert await database.read(keys) == ["after", "before"]


async def test_a_closed_database_says_so(tmp_path: Path) -> None:
    """Writing after the end is an error at once, not a wait for ever."""
    async with open_database(tmp_path / "db") as database:
        pass
    with pytest.raises(DatabaseError, match="closed"):
        await database.write(put("a", "1"))


async def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    """Somebody else's database is never migrated into ours."""
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("CREATE TABLE theirs (id)")
    connection.close()
    with pytest.raises(DatabaseError, match="another program"):
        async with open_database(tmp_path / "db"):
            pass


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """A file with other content is named and left as it is."""
    (tmp_path / "db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(DatabaseError, match="db"):
        async with open_database(tmp_path / "db"):
            pass
    assert (tmp_path / "db").read_bytes().startswith(b"not a database")


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """A damaged page is noticed when the store opens, before anything is written on top of it."""
    async with open_database(tmp_path / "db") as database:
        for n in range(50):
            await database.write(put(f"{n}", "x" * 1000))
    data = bytearray((tmp_path / "db").read_bytes())
    for start in range(4096 * 2, len(data), 4096):
        data[start : start + 64] = b"\xff" * 64
    (tmp_path / "db").write_bytes(data)
    with pytest.raises(DatabaseError):
        async with open_database(tmp_path / "db"):
            pass


async def test_a_file_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    """An older program does not guess at a schema it has never heard of."""
    async with open_database(tmp_path / "db") as database:
        await database.write(
            lambda connection: connection.exec_driver_sql("UPDATE alembic_version SET version_num='99'").close()
        )
    with pytest.raises(DatabaseError, match="newer release"):
        async with open_database(tmp_path / "db"):
            pass


async def test_a_missing_directory_is_one_clear_error(tmp_path: Path) -> None:
    """A path that cannot be made is named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseError, match="file"):
        async with open_store(tmp_path / "file" / "data"):
            pass


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    """After SIGKILL between any two instructions, every row whose write returned is there."""
    acknowledged = write_until_killed(tmp_path / "data")
    async with open_store(tmp_path / "data") as store:
        for worker, number in acknowledged.items():
            assert int(await store.state.get(worker) or -1) >= int(number)


def test_a_database_does_no_work_before_it_is_opened(tmp_path: Path) -> None:
    """Constructing is wiring: no file appears."""
    Database(tmp_path / "db").close()
    assert list(tmp_path.iterdir()) == []
