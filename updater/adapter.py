"""LoRA adapters on disk: read, scale, measure and check. numpy and safetensors only, so the daemon may import it."""

import json
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from memory.files import sha256_of, sync
from updater.training import ADAPTER_CONFIG_FILE, ADAPTER_FILE, BASE_KEY

Tensors = dict[str, NDArray[np.float32]]


class AdapterUnusable(ValueError):
    """An adapter directory that must not be published; the message is the reason."""


def read_tensors(directory: Path) -> Tensors:
    """All tensors of a PEFT directory. Raises AdapterUnusable when the file is missing, truncated or not finite."""
    path = directory / ADAPTER_FILE
    try:
        tensors: Tensors = load_file(path)
    except FileNotFoundError:
        raise AdapterUnusable(f"{path.name} is missing") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise AdapterUnusable(f"{path.name} cannot be read (truncated or damaged): {error}") from error
    broken = [name for name, tensor in tensors.items() if not np.isfinite(tensor).all()]
    if broken:
        raise AdapterUnusable(f"{path.name} has values that are not finite, first in {broken[0]}")
    return tensors


def delta_norm(directory: Path, parent: Path | None) -> float:
    """Frobenius norm of the change of all weight products (scale * B A) against the parent; exactly 0 if none moved.

    Never makes a product of full size: |B1 A1 - B2 A2|^2 is a sum of traces of (rank, rank) matrices, which matters
    because the daemon asks this too. What is below the rounding of that sum counts as zero.
    """
    ours, theirs = _factors(directory), _factors(parent) if parent else {}
    moved = 0.0
    for name, factors in ours.items():
        before = theirs.get(name)
        if before is None:
            moved += _inner(factors, factors)
            continue
        sizes = _inner(factors, factors) + _inner(before, before)
        square = sizes - 2 * _inner(factors, before)
        moved += square if square > 1e-12 * sizes else 0.0
    return float(np.sqrt(moved))


Factors = tuple[NDArray[np.float64], NDArray[np.float64]]
"""(r, in) and (out, r), the scale in the second."""


def _factors(directory: Path) -> dict[str, Factors]:
    config = json.loads((directory / ADAPTER_CONFIG_FILE).read_text())
    scale = config["lora_alpha"] / config["r"]
    tensors = read_tensors(directory)
    return {
        name: (down.astype(np.float64), scale * tensors[name.replace(".lora_A.", ".lora_B.")].astype(np.float64))
        for name, down in tensors.items()
        if ".lora_A." in name
    }


def _inner(left: Factors, right: Factors) -> float:
    """<B1 A1, B2 A2> = sum((B1^T B2) * (A1 A2^T))."""
    return float(((left[1].T @ right[1]) * (left[0] @ right[0].T)).sum())


def check_adapter(directory: Path, *, sha256: str, base_fingerprint: str, parent: Path | None) -> None:
    """Refuse what must never be served: damaged bytes, another base, values not finite, weights that did not move."""
    tensors = read_tensors(directory)
    found = sha256_of(directory / ADAPTER_FILE)
    if found != sha256:
        raise AdapterUnusable(f"{ADAPTER_FILE} has sha256 {found[:12]}, the trainer wrote {sha256[:12]}")
    with safe_open(directory / ADAPTER_FILE, "numpy") as file:
        trained_on = (file.metadata() or {}).get(BASE_KEY, "unknown")
    if trained_on != base_fingerprint:
        raise AdapterUnusable(f"trained on another base model ({trained_on[:12]}, serving {base_fingerprint[:12]})")
    if not tensors:
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
