"""Backup and restore: everything that cannot be made again, in one directory that proves itself.

    state.sqlite     one consistent copy
    versions/        the adapters of every version in it
    config.toml      where the data directory has one
    manifest.json    what is there, with each file's sha256; written last, so a backup without it is not one

Models, indexes and logs are left out: the first two are fetched and built again.
"""

import asyncio
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from memory.files import sha256_of, sync, write_whole
from memory.records import Version
from memory.store import FILE_NAME, Store

MANIFEST = "manifest.json"
CONFIG = "config.toml"


class BackupError(RuntimeError):
    """A backup that cannot be made, or must not be trusted; the message says why."""


class Manifest(BaseModel):
    """What a backup holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    created_at: datetime
    live_version: str
    """The highest number."""
    files: dict[str, str]
    """sha256 by path."""


async def back_up(store: Store, data_dir: Path, target: Path, *, now: datetime) -> Manifest:
    """Write a backup into `target`, which must be absent or empty, while others go on. Raises BackupError."""
    if not await store.updates.versions():
        raise BackupError("there is nothing to back up: no version was ever live")
    await asyncio.to_thread(_make_empty, target)
    # The rows first: a version's bytes are there before its row is, and neither ever changes. What is published after
    # this moment is not in the copy, and its bytes are a few megabytes too many at most.
    await store.copy_into(target / FILE_NAME)
    versions = await store.updates.versions()
    return await asyncio.to_thread(_copy_the_rest, data_dir, target, versions, now)


def _copy_the_rest(data_dir: Path, target: Path, versions: Sequence[Version], now: datetime) -> Manifest:
    for version in versions:
        if version.adapter_path is None or (target / version.adapter_path).exists():
            continue
        if not (data_dir / version.adapter_path).is_dir():
            raise BackupError(f"{version.name} has lost its weights: {data_dir / version.adapter_path} is not there")
        shutil.copytree(data_dir / version.adapter_path, target / version.adapter_path)
    if (data_dir / CONFIG).is_file():
        shutil.copyfile(data_dir / CONFIG, target / CONFIG)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    for path in files:
        path.chmod(0o600)
        sync(path)
    digests = {str(path.relative_to(target)): sha256_of(path) for path in files}
    manifest = Manifest(created_at=now, live_version=versions[-1].name, files=digests)
    write_whole(target / MANIFEST, manifest.model_dump_json(indent=2).encode())
    return manifest


def restore(backup: Path, data_dir: Path) -> Manifest:
    """Make a data directory, which must be absent or empty, of a backup that is whole. Raises BackupError."""
    manifest = check_backup(backup)
    _make_empty(data_dir)
    for name in manifest.files:
        target = data_dir / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(backup / name, target)
        target.chmod(0o600)
        sync(target)
    for folder in {(data_dir / name).parent for name in manifest.files}:
        sync(folder)
    return manifest


def check_backup(backup: Path) -> Manifest:
    """Every file of the manifest is there as it was written. Raises BackupError."""
    try:
        manifest = Manifest.model_validate_json((backup / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise BackupError(f"{backup} is no backup, or one that was cut short: it has no {MANIFEST}") from None
    except ValidationError as problem:
        raise BackupError(f"{backup / MANIFEST} cannot be read: {problem.errors()[0]['msg']}") from None
    for name, digest in manifest.files.items():
        path = backup / name
        if not path.resolve().is_relative_to(backup.resolve()):
            raise BackupError(f"{backup / MANIFEST} names a file outside of the backup: {name}")
        if not path.is_file():
            raise BackupError(f"{name} is missing from {backup}")
        if sha256_of(path) != digest:
            raise BackupError(f"{path} is not what was backed up: its sha256 is another")
    return manifest


def _make_empty(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if next(directory.iterdir(), None) is not None:
        raise BackupError(f"{directory} is not empty")
