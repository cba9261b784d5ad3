"""LoRA adapters as PEFT writes them: read, checked against the base model, then immutable.

An adapter is never merged and never changed after loading: a sequence holds the object it started with, so versions
mix freely in one batch, and unloading is forgetting a reference. Whatever is wrong with a directory becomes one
line in an AdapterRejected. Knows nothing of names, requests or the live version.

LoRA: Hu et al. 2021 (arXiv 2106.09685); scale alpha / r, or alpha / sqrt(r) with use_rslora.
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from agent.inference.architecture import Architecture
from memory.completions import AdapterRejected

_TENSOR_NAME = re.compile(r"base_model\.model\.model\.layers\.(\d+)\.([a-z_]+\.[a-z_]+)\.lora_([AB])\.weight")
_MUST_BE_OFF = ("use_dora", "fan_in_fan_out", "modules_to_save", "rank_pattern", "alpha_pattern", "lora_bias")


@dataclass(frozen=True, slots=True)
class Factors:
    """What one projection adds: rows @ down @ up."""

    down: torch.Tensor  # (in, r)
    up: torch.Tensor  # (r, out), scale included

    def add_to(self, output: torch.Tensor, rows: torch.Tensor) -> None:
        """Add to `output` (N, out), in place, what the adapter makes of `rows` (N, in)."""
        output.addmm_(rows @ self.down, self.up)


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """Factors by (layer, projection); a projection that was not adapted is absent."""

    path: str
    rank: int
    factors: dict[tuple[int, str], Factors]


def load_adapter(directory: Path, architecture: Architecture, *, base_fingerprint: str | None = None) -> Adapter:
    """Read a PEFT directory. Raises AdapterRejected with what is wrong, in one line."""
    config = _read_config(directory / "adapter_config.json")
    tensors = _read_tensors(directory / "adapter_model.safetensors", base_fingerprint)
    shapes = architecture.projection_shapes()
    pairs: dict[tuple[int, str], dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        match = _TENSOR_NAME.fullmatch(name)
        if match is None or match[2] not in shapes or int(match[1]) >= architecture.num_layers:
            raise AdapterRejected(f"tensor {name} fits no projection of the base model")
        expected = (config.rank, shapes[match[2]][1]) if match[3] == "A" else (shapes[match[2]][0], config.rank)
        if tuple(tensor.shape) != expected:
            raise AdapterRejected(f"tensor {name} has shape {tuple(tensor.shape)}, the base model needs {expected}")
        if not bool(torch.isfinite(tensor).all()):
            raise AdapterRejected(f"tensor {name} holds values that are not finite")
        pairs.setdefault((int(match[1]), match[2]), {})[match[3]] = tensor
    _require_complete(pairs, config, architecture)
    factors = {
        where: Factors(pair["A"].float().t().contiguous(), (pair["B"].float() * config.scale).t().contiguous())
        for where, pair in pairs.items()
    }
    return Adapter(str(directory), config.rank, factors)


@dataclass(frozen=True, slots=True)
class _Config:
    """What adapter_config.json promises."""

    rank: int
    scale: float
    targets: tuple[str, ...]
    """Names of adapted projections; empty where the config has a pattern instead."""
    layers: tuple[int, ...] | None
    """None: all."""


def _read_config(path: Path) -> _Config:
    try:
        config = json.loads(path.read_text())
        rank, alpha, kind = int(config["r"]), float(config["lora_alpha"]), config["peft_type"]
    except FileNotFoundError:
        raise AdapterRejected(f"{path} does not exist") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AdapterRejected(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    if kind != "LORA":
        raise AdapterRejected(f"peft_type {kind} (only LORA)")
    if rank < 1:
        raise AdapterRejected(f"rank {rank}")
    for key in _MUST_BE_OFF:
        if config.get(key):
            raise AdapterRejected(f"{key} is set, which this engine does not compute")
    if config.get("bias", "none") != "none":
        raise AdapterRejected(f"bias {config['bias']} (only none)")
    targets, layers = config.get("target_modules") or (), config.get("layers_to_transform")
    return _Config(
        rank=rank,
        scale=alpha / math.sqrt(rank) if config.get("use_rslora") else alpha / rank,
        targets=() if isinstance(targets, str) else tuple(targets),
        layers=(layers,) if isinstance(layers, int) else tuple(layers) if layers else None,
    )


def _read_tensors(path: Path, base_fingerprint: str | None) -> dict[str, torch.Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            trained_on = (file.metadata() or {}).get("base_fingerprint")
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise AdapterRejected(f"{path} does not exist") from None
    except (OSError, SafetensorError) as error:
        raise AdapterRejected(f"{path} is damaged: {error}") from error
    if base_fingerprint and trained_on and trained_on != base_fingerprint:
        raise AdapterRejected(f"trained on base {trained_on}, this engine serves base {base_fingerprint}")
    return tensors


def _require_complete(
    pairs: dict[tuple[int, str], dict[str, torch.Tensor]], config: _Config, architecture: Architecture
) -> None:
    """Every pair whole, and every projection there that the config names in every layer that it names."""
    if not pairs:
        raise AdapterRejected("the adapter holds no tensors")
    projections = architecture.projection_shapes()
    named = [name for name in projections if name in config.targets or name.split(".")[1] in config.targets]
    layers = range(architecture.num_layers) if config.layers is None else config.layers
    for layer, name in sorted(set(pairs) | {(layer, name) for layer in layers for name in named}):
        missing = {"A", "B"} - set(pairs.get((layer, name), ()))
        if missing:
            raise AdapterRejected(f"layer {layer} {name} lacks lora_{min(missing)}")
