"""What a model directory holds and how it is told apart from another: files, manifest, fingerprint."""

import hashlib
import json
from pathlib import Path

from memory.files import sha256_of, sync

MANIFEST = "journeyman.json"
"""Written last into a directory that we made: name, size and sha256 of every file. Without it nothing is finished."""

NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
_VOLATILE_CONFIG = frozenset({"_name_or_path", "transformers_version", "dtype", "torch_dtype"})
"""Keys of config.json that change without changing what the model computes."""


def has_model(directory: Path) -> bool:
    """True if the needed files are there and, where there is a manifest, every file has the size it speaks of."""
    if not all((directory / name).is_file() for name in NEEDED):
        return False
    return not (directory / MANIFEST).is_file() or _read_manifest(directory) is not None


def seal(directory: Path) -> None:
    """Write the manifest and make all of it durable."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    entries = {
        str(path.relative_to(directory)): {"bytes": path.stat().st_size, "sha256": sha256_of(path)} for path in files
    }
    manifest = directory / MANIFEST
    manifest.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    for path in (*files, manifest, *{file.parent for file in files}, directory):
        sync(path)


def model_fingerprint(directory: Path) -> str:
    """16 hex digits over weights, configuration, tokenizer and chat template."""
    known = _read_manifest(directory) or {}
    parts = hashlib.sha256()
    for name in (*NEEDED, "chat_template.jinja"):
        path = directory / name
        if not path.is_file():
            continue
        digest = _config_sha256(path) if name == "config.json" else known.get(name) or sha256_of(path)
        parts.update(f"{name}:{digest}\n".encode())
    return parts.hexdigest()[:16]


def _config_sha256(path: Path) -> str:
    config = json.loads(path.read_text(encoding="utf-8"))
    lasting = {key: value for key, value in config.items() if key not in _VOLATILE_CONFIG}
    return hashlib.sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()


def _read_manifest(directory: Path) -> dict[str, str] | None:
    """File name -> sha256, or None if there is no manifest or a size differs from it."""
    path = directory / MANIFEST
    if not path.is_file():
        return None
    entries = json.loads(path.read_text(encoding="utf-8"))
    for name, entry in entries.items():
        file = directory / name
        if not file.is_file() or file.stat().st_size != entry["bytes"]:
            return None
    return {name: entry["sha256"] for name, entry in entries.items()}
