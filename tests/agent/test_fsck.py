"""Every kind of damage is found, and a whole directory has none."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.fsck import Finding, check_data_dir
from memory.files import sha256_of
from memory.store import FILE_NAME
from memory.tokens import Tokenizer
from tests.agent.edge import add_version, an_edge
from updater.training import ADAPTER_FILE


@pytest.fixture
async def data_dir(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """Two turns of one session and one version with weights."""
    place = tmp_path / "data"
    async with an_edge(tokenizer, place) as edge:
        first = await edge.chat("What is a glacier?")
        said = first["choices"][0]["message"]
        history = [{"role": "user", "content": "What is a glacier?"}, said]
        await edge.chat("And a volcano?", history=history)
        version = await add_version(edge.store, 1)
        weights = place / str(version.adapter_path) / ADAPTER_FILE
        weights.parent.mkdir(parents=True)
        weights.write_bytes(b"weights")
    with sqlite3.connect(place / FILE_NAME) as connection:
        connection.execute("UPDATE versions SET sha256 = ? WHERE number = 1", (sha256_of(weights),))
    return place


def change(data_dir: Path, statement: str) -> None:
    with sqlite3.connect(data_dir / FILE_NAME) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(statement)


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def errors(found: list[Finding]) -> list[str]:
    return [f"{one.where} {one.what}" for one in found if one.is_error]


async def test_a_whole_directory_has_no_findings(data_dir: Path) -> None:
    assert check_data_dir(data_dir) == []


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda place: (place / FILE_NAME).unlink(), "is not there"),
        (lambda place: (place / FILE_NAME).write_bytes(b"x" * 8192), "cannot be read"),
        (
            lambda place: (place / FILE_NAME).write_bytes((place / FILE_NAME).read_bytes()[:20000]),
            "damaged|cannot be read",
        ),
        (lambda place: flip(place / "versions" / "v1" / ADAPTER_FILE, 3), "policy@v1 has other weights"),
        (lambda place: (place / "versions" / "v1" / ADAPTER_FILE).unlink(), "policy@v1 has lost its weights"),
        (lambda place: change(place, "DELETE FROM interactions WHERE chain_depth = 0"), "its prompt cannot be read"),
        (lambda place: change(place, "UPDATE alembic_version SET version_num = '9999'"), "newer release"),
    ],
)
async def test_damage_is_found(data_dir: Path, damage: Callable[[Path], object], said: str) -> None:
    """Each is an error that says what was lost."""
    damage(data_dir)
    found = errors(check_data_dir(data_dir))
    assert any(part in line for line in found for part in said.split("|")), found


async def test_remains_are_warnings(data_dir: Path) -> None:
    """What an interrupted publication or write left behind harms nobody."""
    (data_dir / "versions" / "v2-0123").mkdir()
    (data_dir / ".state.tmp").write_bytes(b"")
    found = check_data_dir(data_dir)
    assert [one.is_error for one in found] == [False, False]
