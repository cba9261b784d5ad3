"""What tests of the daemon share: an edge, a store, and a place for sockets whose path is short."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from memory.store import Store, open_store
from memory.tokens import Tokenizer
from tests.agent.edge import Edge, an_edge


@pytest.fixture
async def edge(tokenizer: Tokenizer, tmp_path: Path) -> AsyncIterator[Edge]:
    async with an_edge(tokenizer, tmp_path / "data") as served:
        yield served


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory that leaves room for socket names."""
    with tempfile.TemporaryDirectory(prefix="jm") as path:
        yield Path(path)
