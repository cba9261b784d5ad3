"""LoRA adapters on disk: read, scale, measure and check. numpy and safetensors only, so the daemon may import it."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from memory.files import sha256_of, sync
from updater.training import ADAPTER_CONFIG_FILE, ADAPTER_FILE, BASE_KEY


class AdapterUnusable(ValueError):
    """An adapter directory that must not be published; the message is the reason."""


def delta_norm(directory: Path, parent: Path | None) -> float:
    """Frobenius norm of the change of all weight products (scale * B A) against the parent; exactly 0 if none moved.

    Never makes a product of full size: |B1 A1 - B2 A2|^2 is a sum of traces of (rank, rank) matrices. What is below the
    rounding of that sum counts as zero. Raises AdapterUnusable.
    """
    before = set(tensor_names(parent)) if parent else set()
    moved = 0.0
    for name in tensor_names(directory):
        if ".lora_A." not in name:
            continue
        ours = _factors(directory, name)
        if parent is None or name not in before:
            moved += _inner(ours, ours)
            continue
        theirs = _factors(parent, name)
        sizes = _inner(ours, ours) + _inner(theirs, theirs)
        square = sizes - 2 * _inner(ours, theirs)
        moved += square if square > 1e-12 * sizes else 0.0
    return float(np.sqrt(moved))


def tensor_names(directory: Path) -> list[str]:
    with _opened(directory) as file:
        return list(file.keys())


def read_tensor(directory: Path, name: str) -> NDArray[np.float32]:
    """One tensor. The file is mapped anew each time, because every page that was read counts as the daemon's memory."""
    with _opened(directory) as file:
        tensor: NDArray[np.float32] = file.get_tensor(name)
    if not np.isfinite(tensor).all():
        raise AdapterUnusable(f"{ADAPTER_FILE} has values that are not finite, first in {name}")
    return tensor


@contextmanager
def _opened(directory: Path) -> Iterator[Any]:
    """The adapter file of a PEFT directory. Raises AdapterUnusable when it is missing or cannot be read."""
    try:
        with safe_open(directory / ADAPTER_FILE, "numpy") as file:
            yield file
    except FileNotFoundError:
        raise AdapterUnusable(f"{ADAPTER_FILE} is missing") from None
    except (SafetensorError, OSError) as error:
        raise AdapterUnusable(f"{ADAPTER_FILE} cannot be read (truncated or damaged): {error}") from error


Factors = tuple[NDArray[np.float64], NDArray[np.float64]]
"""(r, in) and (out, r), the scale in the second."""


def _factors(directory: Path, name: str) -> Factors:
    """A and B of one projection; `name` is A's."""
    config = json.loads((directory / ADAPTER_CONFIG_FILE).read_text())
    scale = config["lora_alpha"] / config["r"]
    down = read_tensor(directory, name)
    up = read_tensor(directory, name.replace(".lora_A.", ".lora_B."))
    return down.astype(np.float64), scale * up.astype(np.float64)


def _inner(left: Factors, right: Factors) -> float:
    """<B1 A1, B2 A2> = sum((B1^T B2) * (A1 A2^T))."""
    return float(((left[1].T @ right[1]) * (left[0] @ right[0].T)).sum())


def check_adapter(directory: Path, *, sha256: str, base_fingerprint: str, parent: Path | None) -> None:
    """Refuse what must never be served: damaged bytes, another base, values not finite, weights that did not move."""
    names = tensor_names(directory)
    for name in names:
        read_tensor(directory, name)
    found = sha256_of(directory / ADAPTER_FILE)
    if found != sha256:
        raise AdapterUnusable(f"{ADAPTER_FILE} has sha256 {found[:12]}, the trainer wrote {sha256[:12]}")
    with _opened(directory) as file:
        trained_on = (file.metadata() or {}).get(BASE_KEY, "unknown")
    if trained_on != base_fingerprint:
        raise AdapterUnusable(f"trained on another base model ({trained_on[:12]}, serving {base_fingerprint[:12]})")
    if not names:
        raise AdapterUnusable(f"{ADAPTER_FILE} holds no tensors")
    if delta_norm(directory, parent) == 0.0:
        raise AdapterUnusable("no weight moved: the adapter equals its parent")


def publish_directory(source: Path, target: Path) -> None:
    """Copy a PEFT directory so that it is whole or absent: temporary name, fsync, rename, fsync of the parent."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return
    staging = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    for name in (ADAPTER_FILE, ADAPTER_CONFIG_FILE):
        shutil.copyfile(source / name, staging / name)
        sync(staging / name)
    sync(staging)
    staging.rename(target)
    sync(target.parent)
