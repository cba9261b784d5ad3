"""Files that must be whole: their digests, and writes that a power cut leaves either done or undone."""

import hashlib
import os
from pathlib import Path


def sha256_of(path: Path) -> str:
    """Hex digest of the file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Return once the file, or the entries of the directory, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is either the old or the new one at any moment."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(data)
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)
