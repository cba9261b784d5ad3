"""A real store in a directory of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.store import Store, open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Closed when the test ends."""
    async with open_store(tmp_path / "data") as opened:
        yield opened
