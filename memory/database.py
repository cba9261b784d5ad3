"""One SQLite file: one thread writes, a few read, and a write that returned has reached the disk.

Group commit without a timer: the writer commits when it is idle, and whatever queued up while the last commit waited
for the disk becomes the next commit. Each job runs in a savepoint of its own, so one that fails takes nobody with it.
The connection that writes is also the only one that checkpoints: SQLite before 3.51.3 can corrupt a database when a
checkpoint of another connection races with a reset of the write-ahead log.

Knows nothing of tables, only that the migrations beside it bring any file up to date.
"""

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from memory.files import sync
from memory.migrating import HEAD, migrate, revision_of

T = TypeVar("T")

APPLICATION_ID = 0x4A4D414E  # "JMAN": a file of another program is refused
MAX_GROUP = 256  # jobs a commit, so that the first of a long queue does not wait for the last
NUM_READERS = 2
CHECK_LIMIT_S = 2.0  # the integrity check at open gives up, undecided, after this long

WRITER_PRAGMAS: tuple[tuple[str, str | int], ...] = (
    ("journal_mode", "wal"),
    ("synchronous", 2),  # FULL: a commit survives a power cut, not only the end of the process
    ("foreign_keys", 1),
    ("secure_delete", 1),  # erased text is overwritten, not only unlinked
    ("busy_timeout", 5000),  # ms
    ("wal_autocheckpoint", 1000),  # pages
)
READER_PRAGMAS: tuple[tuple[str, str | int], ...] = (
    ("query_only", 1),
    ("busy_timeout", 5000),  # ms
    ("wal_autocheckpoint", 0),
)


class DatabaseError(RuntimeError):
    """The file cannot be opened, or can no longer be trusted; the message says which file and why."""


@dataclass(slots=True)
class _Job:
    run: Callable[[Connection], Any]
    future: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Relay:
    """Whatever is raised inside belongs to the one who awaits the future; the thread goes on."""

    future: Future[Any]

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            self.future.set_exception(_as_database_error(error))
        return error is not None


@asynccontextmanager
async def open_database(path: Path) -> AsyncIterator["Database"]:
    """Open or create the file, up to date; leaving the block finishes what was handed over. Raises DatabaseError."""
    database = Database(path)
    await asyncio.to_thread(database.start)
    try:
        yield database
    finally:
        await asyncio.to_thread(database.close)


class Database:
    """Runs functions of a connection, off the event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._refuses: str | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._writer = _engine(path, "rw", WRITER_PRAGMAS, begin="BEGIN IMMEDIATE")
        self._reader = _engine(path, "ro", READER_PRAGMAS, begin="BEGIN")
        self._readers = ThreadPoolExecutor(NUM_READERS, thread_name_prefix="store-reader")
        self._thread = threading.Thread(target=self._write_until_closed, name="store-writer", daemon=True)

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` on one consistent snapshot."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._query, query)

    async def copy_into(self, target: Path) -> None:
        """A consistent copy of everything that was durable when this was asked, while others read and write."""
        await self.read(lambda connection: copy_into(_driver(connection), target))

    async def write(self, job: Callable[[Connection], T]) -> T:
        """Run `job` in a transaction; returns once it is on disk. What was handed over is done even when the caller
        is cancelled while it waits. Raises what the job raised, or DatabaseError when nothing can be written."""
        if self._refuses is not None:
            raise DatabaseError(self._refuses)
        handed_over = _Job(job)
        self._jobs.put(handed_over)
        result: T = await asyncio.shield(asyncio.wrap_future(handed_over.future))
        return result

    def start(self) -> None:
        """Bring the schema up to date, then accept jobs. Raises DatabaseError."""
        _create_private(self.path)
        try:
            with self._writer.connect() as connection:
                _check_ownership(connection, self.path)
                _check_integrity(connection, self.path)
                _migrate(connection, self.path)
        except (DBAPIError, sqlite3.Error) as error:
            self.close()
            raise DatabaseError(f"cannot open {self.path}: {error}") from error
        except DatabaseError:
            self.close()
            raise
        self._thread.start()

    def close(self) -> None:
        """Finish what is queued. Readers close first, so that the last checkpoint is the writer's."""
        self._refuses = f"{self.path} is closed"
        self._readers.shutdown()
        self._reader.dispose()
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()
        self._writer.dispose()

    def _query(self, query: Callable[[Connection], T]) -> T:
        with self._reader.connect() as connection:
            return query(connection)

    def _write_until_closed(self) -> None:
        with self._writer.connect() as connection:
            is_open = True
            while is_open:
                group = self._next_group()
                jobs = [job for job in group if job is not None and job.future.set_running_or_notify_cancel()]
                is_open = None not in group
                self._commit(connection, jobs)

    def _next_group(self) -> list[_Job | None]:
        """Wait for a job, then take what else is there. None marks the end of the queue."""
        group = [self._jobs.get()]
        while len(group) < MAX_GROUP and not self._jobs.empty():
            group.append(self._jobs.get_nowait())
        return group

    def _commit(self, connection: Connection, jobs: list[_Job]) -> None:
        """One transaction for all; each caller hears of its own job only after the commit."""
        try:
            with connection.begin():
                done = [(job, result) for job in jobs for result in _run_in_savepoint(connection, job)]
        except (DatabaseError, SQLAlchemyError, sqlite3.Error) as error:
            self._refuse_after(error)
            for job in jobs:
                if not job.future.done():
                    job.future.set_exception(_as_database_error(error))
            return
        for job, result in done:
            job.future.set_result(result)

    def _refuse_after(self, error: Exception) -> None:
        """After a failed sync nobody knows what is on disk: trying again and carrying on is how data gets lost."""
        reason: BaseException | None = error
        while reason is not None and not hasattr(reason, "sqlite_errorcode"):
            reason = reason.__cause__ or reason.__context__
        if reason is not None and reason.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR:
            self._refuses = f"{self.path} could not be written and takes no more: {reason}"


def _run_in_savepoint(connection: Connection, job: _Job) -> list[Any]:
    """[result], or [] after the job failed alone. Raises DatabaseError when SQLite gave up the transaction with it."""
    results = []
    with _Relay(job.future), connection.begin_nested():
        results.append(job.run(connection))
    if not _driver(connection).in_transaction:
        raise DatabaseError("SQLite gave up the transaction") from job.future.exception()
    return results


def _as_database_error(error: BaseException) -> BaseException:
    """What SQLite could not do (disk full, I/O error, lock), by our own name; a job's own mistakes stay what they are.

    The cause stays attached: it is what says whether the file can still be trusted.
    """
    if not isinstance(error, (OperationalError, sqlite3.OperationalError)):
        return error
    named = DatabaseError(str(error.orig if isinstance(error, OperationalError) else error))
    named.__cause__ = error
    return named


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _engine(path: Path, mode: str, pragmas: tuple[tuple[str, str | int], ...], *, begin: str) -> Engine:
    """An engine whose connections have proved their pragmas and begin transactions by `begin`."""

    def connect() -> sqlite3.Connection:
        uri = f"file:{quote(str(path.absolute()))}?mode={mode}"
        driver = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        for name, wanted in pragmas:
            driver.execute(f"PRAGMA {name} = {wanted}")
            (value,) = driver.execute(f"PRAGMA {name}").fetchone()
            if value != wanted:
                driver.close()
                raise DatabaseError(f"{path}: PRAGMA {name} is {value!r} and will not become {wanted!r}")
        return driver

    size = NUM_READERS if mode == "ro" else 1
    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=size, max_overflow=0)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _create_private(path: Path) -> None:
    """An empty file for the owner alone; SQLite gives its companions the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise DatabaseError(f"cannot create {path}: {error.strerror}") from error


def _check_ownership(connection: Connection, path: Path) -> None:
    application_id = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    num_tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
    if application_id != APPLICATION_ID and (application_id or num_tables):
        raise DatabaseError(f"{path} is a database of another program")


def _check_integrity(connection: Connection, path: Path) -> None:
    """Refuse a damaged file before anything is written to it; a big file may stay undecided."""
    deadline = time.monotonic() + CHECK_LIMIT_S
    driver = _driver(connection)
    driver.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
    try:
        (verdict,) = driver.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        verdict = "ok"
    finally:
        driver.set_progress_handler(None, 0)
    if verdict != "ok":
        raise DatabaseError(f"{path} is damaged ({verdict}); restore it from a backup")


def _migrate(connection: Connection, path: Path) -> None:
    """Run what is missing in one transaction, with a copy beside it first. A file of a newer release is refused."""
    before = revision_of(connection)
    if before == HEAD:
        return
    if before is not None and before > HEAD:
        raise DatabaseError(f"{path} was written by a newer release: schema {before}, this one knows {HEAD}")
    if before is not None:
        # Through a connection of its own: what holds the write lock cannot be copied from.
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as reader:
            copy_into(reader, path.with_name(f"{path.name}.before-{HEAD}"))
    migrate(connection)
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.commit()


def copy_into(driver: sqlite3.Connection, target: Path) -> None:
    """One consistent copy of the whole database in one file, whole or absent. What was there is replaced."""
    staging = target.with_name(f".{target.name}.tmp")
    staging.unlink(missing_ok=True)
    _create_private(staging)
    copy = sqlite3.connect(staging)
    try:
        driver.backup(copy)
        copy.execute("PRAGMA journal_mode = delete")  # the copy is one file, without a log beside it
    finally:
        copy.close()
    sync(staging)
    staging.replace(target)
    sync(target.parent)
