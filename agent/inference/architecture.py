"""Which models the engine can run: the shape of a Llama-like decoder, read from its config.json.

Knows config keys and their meaning, no tensors. Three families share one forward pass: Llama, Qwen2 (bias on q, k
and v) and Qwen3 (RMSNorm on each head's q and k). Anything else is refused here, by name and with the reason,
because a model that runs wrongly is worse than one that does not run.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FAMILIES = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}


class UnsupportedModelError(ValueError):
    """The model directory describes something this engine cannot compute faithfully."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The numbers of one decoder."""

    family: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_positions: int
    rope_theta: float
    rms_eps: float
    has_tied_head: bool
    has_qkv_bias: bool
    has_qk_norm: bool

    def projection_shapes(self) -> dict[str, tuple[int, int]]:
        """(out, in) of the seven matrices of a layer, by their names in the checkpoint."""
        query, key, hidden = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim, self.hidden_size
        return {
            "self_attn.q_proj": (query, hidden),
            "self_attn.k_proj": (key, hidden),
            "self_attn.v_proj": (key, hidden),
            "self_attn.o_proj": (hidden, query),
            "mlp.gate_proj": (self.intermediate_size, hidden),
            "mlp.up_proj": (self.intermediate_size, hidden),
            "mlp.down_proj": (hidden, self.intermediate_size),
        }


def read_architecture(directory: Path) -> Architecture:
    """Parse config.json; raises UnsupportedModelError with the reason."""
    config = json.loads((directory / "config.json").read_text())
    names = config.get("architectures") or ["(none named)"]
    family = _FAMILIES.get(names[0])
    if family is None:
        raise UnsupportedModelError(f"architecture {names[0]} is not one of {', '.join(_FAMILIES)}")
    _refuse_variants(config)
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    return Architecture(
        family=family,
        num_layers=config["num_hidden_layers"],
        hidden_size=hidden,
        intermediate_size=config["intermediate_size"],
        num_heads=heads,
        num_kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or hidden // heads,
        vocab_size=config["vocab_size"],
        max_positions=config["max_position_embeddings"],
        rope_theta=_rope_theta(config),
        rms_eps=config["rms_norm_eps"],
        has_tied_head=bool(config.get("tie_word_embeddings", False)),
        has_qkv_bias=family == "qwen2",
        has_qk_norm=family == "qwen3",
    )


def _refuse_variants(config: dict[str, Any]) -> None:
    """Features that change the numbers and that the forward pass does not have."""
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise UnsupportedModelError(f"hidden_act {activation} (only silu)")
    for key in ("attention_bias", "mlp_bias", "use_sliding_window"):
        if config.get(key):
            raise UnsupportedModelError(f"{key} = true")
    if config.get("quantization_config"):
        raise UnsupportedModelError("the weights are quantised; convert them to plain safetensors first")


def _rope_theta(config: dict[str, Any]) -> float:
    """Both spellings: `rope_parameters` (transformers 5) and `rope_theta` with `rope_scaling` (4)."""
    rope = config.get("rope_parameters") or {"rope_theta": config.get("rope_theta", 10000.0)}
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type") or scaling.get("type") or rope.get("rope_type", "default")
    if kind != "default":
        raise UnsupportedModelError(f"rope type {kind} (only default)")
    return float(rope["rope_theta"])
