"""A backup of a running daemon's data, restored elsewhere; and one that must not be trusted."""

import asyncio
from pathlib import Path

import pytest

from agent.backups import MANIFEST, BackupError, back_up, check_backup, restore
from memory.records import utc_now
from memory.store import open_store
from memory.tokens import Tokenizer
from tests.agent.edge import Edge, add_version, an_edge


async def a_backup(edge: Edge, target: Path) -> None:
    await back_up(edge.store, target.parent / "data", target, now=utc_now())


async def test_a_backup_under_load_has_everything_that_was_answered_before_it(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """And what is restored reads back row by row."""
    target, again = tmp_path / "backup", tmp_path / "again"
    async with an_edge(tokenizer, tmp_path / "data") as edge:
        version = await add_version(edge.store, 1)
        weights = tmp_path / "data" / str(version.adapter_path) / "weights"
        weights.parent.mkdir(parents=True)
        weights.write_bytes(b"weights")
        before = [(await edge.chat(f"Question {number}?"))["headers"]["X-Interaction-Id"] for number in range(5)]
        asked = asyncio.gather(*(edge.chat(f"Meanwhile {number}?") for number in range(20)))
        await a_backup(edge, target)
        await asked
        rows = await edge.store.interactions.get_many(before)
    manifest = restore(target, again)
    assert manifest.live_version == "policy@v1"
    assert (again / str(version.adapter_path) / "weights").read_bytes() == b"weights"
    async with open_store(again) as store:
        assert await store.interactions.get_many(before) == rows
    assert {path.stat().st_mode & 0o077 for path in again.rglob("*") if path.is_file()} == {0}


async def test_a_damaged_backup_is_not_restored(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Nothing is written where it would have gone."""
    async with an_edge(tokenizer, tmp_path / "data") as edge:
        await edge.chat()
        await a_backup(edge, tmp_path / "backup")
    database = tmp_path / "backup" / "state.sqlite"
    whole = database.read_bytes()
    for damaged, reason in ((whole[:-1], "sha256"), (whole[:-9] + b"x" + whole[-8:], "sha256")):
        database.write_bytes(damaged)
        with pytest.raises(BackupError, match=reason):
            restore(tmp_path / "backup", tmp_path / "again")
    database.unlink()
    with pytest.raises(BackupError, match="missing"):
        check_backup(tmp_path / "backup")
    (tmp_path / "backup" / MANIFEST).unlink()
    with pytest.raises(BackupError, match="cut short"):
        check_backup(tmp_path / "backup")
    assert not (tmp_path / "again").exists()


async def test_neither_goes_where_something_is(tokenizer: Tokenizer, tmp_path: Path) -> None:
    async with an_edge(tokenizer, tmp_path / "data") as edge:
        with pytest.raises(BackupError, match="not empty"):
            await back_up(edge.store, tmp_path / "data", tmp_path / "data", now=utc_now())
        await a_backup(edge, tmp_path / "backup")
        with pytest.raises(BackupError, match="not empty"):
            restore(tmp_path / "backup", tmp_path / "data")


async def test_a_backup_that_lacks_weights_is_none(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """It is better to hear of it now than at the restore."""
    async with an_edge(tokenizer, tmp_path / "data") as edge:
        await add_version(edge.store, 1)
        with pytest.raises(BackupError, match="policy@v1 has lost its weights"):
            await a_backup(edge, tmp_path / "backup")


async def test_a_path_on_the_server_is_taken_from_its_owner_only(edge: Edge, tmp_path: Path) -> None:
    """Over TCP, with or without keys, nobody may say where files go."""
    status, answer = (await edge.post("/admin/backup", {"to": str(tmp_path / "stolen")}))[:2]
    assert status == 403
    assert "admin socket" in answer["error"]["message"]
    assert not (tmp_path / "stolen").exists()
