"""The store: all that is true, in one SQLite file. Everything else (indexes, caches, metrics) can be thrown away."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from memory.database import Database, DatabaseError, open_database
from memory.embeddings import Embeddings
from memory.feedback import FeedbackLog
from memory.interactions import Interactions
from memory.judgements import Judgements
from memory.keys import Keys
from memory.state import State
from memory.updates import Updates

FILE_NAME = "state.sqlite"


class Store:
    """The records of memory/records.py, by who writes them. Every method is async and off the event loop."""

    def __init__(self, database: Database) -> None:
        self.copy_into = database.copy_into
        self.interactions = Interactions(database)
        self.feedback = FeedbackLog(database)
        self.judgements = Judgements(database)
        self.updates = Updates(database)
        self.embeddings = Embeddings(database)
        self.keys = Keys(database)
        self.state = State(database)


@asynccontextmanager
async def open_store(data_dir: Path) -> AsyncIterator[Store]:
    """Open or create `data_dir`/state.sqlite, readable by its owner alone. Raises DatabaseError."""
    _create_directory(data_dir)
    async with open_database(data_dir / FILE_NAME) as database:
        yield Store(database)


def _create_directory(data_dir: Path) -> None:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(f"cannot create {data_dir}: {error.strerror}") from error
