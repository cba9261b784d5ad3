"""The decoder's forward pass in fp32: token rows in, hidden rows out, logits on request.

Weights stay memory-mapped (and so shared with a trainer that maps the same file). Rows of all sequences go through
each linear layer together; attention and adapters follow the batch's plan. Knows nothing of requests, sampling or
scheduling. Shapes: T rows, H hidden, A heads, G query heads per kv head, D head width, K keys.
"""

from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from safetensors.torch import load_file

from agent.inference.architecture import Architecture, UnsupportedModelError, read_architecture
from agent.inference.batch import AttentionPart, Batch
from agent.inference.kv_cache import KVCache

_FEW_ROWS = range(
    8, 49
)  # so many rows are multiplied faster from the weight's side, by up to two times (EXPERIMENTS.md)


class DecoderModel:
    """A Llama-shaped model whose state is its weights and nothing else."""

    def __init__(self, architecture: Architecture, weights: dict[str, torch.Tensor]) -> None:
        self.architecture = architecture
        self._weights = weights
        self._head = weights["model.embed_tokens.weight" if architecture.has_tied_head else "lm_head.weight"]
        self._cosine, self._sine = _rotary_tables(architecture)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Map model.safetensors (or its shards) of `directory`; raises UnsupportedModelError with the reason."""
        architecture = read_architecture(directory)
        files = sorted(directory.glob("model*.safetensors"))
        if not files:
            raise UnsupportedModelError(f"{directory} holds no model.safetensors")
        weights = {name: tensor.float() for file in files for name, tensor in load_file(file).items()}
        _require_weights(weights, architecture)
        return cls(architecture, weights)

    def forward(self, batch: Batch, cache: KVCache) -> torch.Tensor:
        """(T, H) final hidden rows, normed; the rows' keys and values are in `cache` afterwards."""
        hidden = F.embedding(batch.token_ids, self._weights["model.embed_tokens.weight"])  # (T, H)
        rotation = (self._cosine[batch.positions, None], self._sine[batch.positions, None])  # (T, 1, D) each
        for layer in range(self.architecture.num_layers):
            hidden = hidden + self._attention(layer, hidden, batch=batch, rotation=rotation, cache=cache)
            hidden = hidden + self._mlp(layer, hidden, batch)
        return self._norm(hidden, "model.norm.weight")

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(N, V) of (N, H): called for the rows that need it only."""
        return _linear(hidden, self._head)

    def _attention(
        self,
        layer: int,
        hidden: torch.Tensor,
        *,
        batch: Batch,
        rotation: tuple[torch.Tensor, torch.Tensor],
        cache: KVCache,
    ) -> torch.Tensor:
        shape, prefix = self.architecture, f"model.layers.{layer}."
        normed = self._norm(hidden, prefix + "input_layernorm.weight")
        query = self._project(layer, "self_attn.q_proj", normed, batch).view(-1, shape.num_heads, shape.head_dim)
        key = self._project(layer, "self_attn.k_proj", normed, batch).view(-1, shape.num_kv_heads, shape.head_dim)
        value = self._project(layer, "self_attn.v_proj", normed, batch).view(-1, shape.num_kv_heads, shape.head_dim)
        if shape.has_qk_norm:
            query = self._norm(query, prefix + "self_attn.q_norm.weight")
            key = self._norm(key, prefix + "self_attn.k_norm.weight")
        keys, values = cache.keys(layer), cache.values(layer)
        keys[batch.slots, batch.positions] = _rotate(key, rotation)
        values[batch.slots, batch.positions] = value
        query = _rotate(query, rotation)
        outputs = [_attend(part, query[part.rows], keys, values) for part in batch.parts]
        attended = outputs[0] if len(outputs) == 1 else torch.cat(outputs)  # (T, A * D)
        return self._project(layer, "self_attn.o_proj", attended, batch)

    def _mlp(self, layer: int, hidden: torch.Tensor, batch: Batch) -> torch.Tensor:
        normed = self._norm(hidden, f"model.layers.{layer}.post_attention_layernorm.weight")
        gate = F.silu(self._project(layer, "mlp.gate_proj", normed, batch), inplace=True)
        return self._project(
            layer, "mlp.down_proj", gate.mul_(self._project(layer, "mlp.up_proj", normed, batch)), batch
        )

    def _project(self, layer: int, name: str, rows: torch.Tensor, batch: Batch) -> torch.Tensor:
        """A linear layer plus what each adapter adds to its own rows."""
        prefix = f"model.layers.{layer}.{name}"
        output = _linear(rows, self._weights[prefix + ".weight"], self._weights.get(prefix + ".bias"))
        for group in batch.adapter_rows:
            factors = group.adapter.factors.get((layer, name))
            if factors is not None:
                factors.add_to(output[group.rows], rows[group.rows])
        return output

    def _norm(self, rows: torch.Tensor, name: str) -> torch.Tensor:
        return F.rms_norm(rows, rows.shape[-1:], self._weights[name], self.architecture.rms_eps)


def _linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """(T, out) of (T, in) rows and a (out, in) weight; for a decoding batch the usual order of the product is slow."""
    if len(rows) not in _FEW_ROWS:
        return F.linear(rows, weight, bias)
    output = torch.mm(weight, rows.t()).t().contiguous()
    return output if bias is None else output.add_(bias)


def _attend(part: AttentionPart, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """(N, A * D) of query (N, A, D) against the part's slots; query heads fold onto their kv head."""
    key = keys[part.slots, : part.num_keys].transpose(1, 2)  # (S, kv heads, K, D)
    value = values[part.slots, : part.num_keys].transpose(1, 2)
    rows, kv_heads = query.shape[0], key.shape[1]
    if rows == key.shape[0]:  # one token per slot: the G heads of a kv head stand where tokens of a chunk would
        folded = query.view(rows, kv_heads, -1, query.shape[-1])  # (S, kv heads, G, D)
        mask = None if part.mask is None else part.mask.expand(-1, -1, folded.shape[2], -1)
        return F.scaled_dot_product_attention(folded, key, value, attn_mask=mask).flatten(1)
    heads = query.transpose(0, 1)[None]  # (1, A, L, D)
    output = F.scaled_dot_product_attention(
        heads, key, value, attn_mask=part.mask, is_causal=part.is_causal, enable_gqa=True
    )
    return output[0].transpose(0, 1).flatten(1)


def _rotate(heads: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Rotary embedding (Su et al. 2021) in the half-split layout of the Hugging Face checkpoints."""
    cosine, sine = rotation
    first, second = heads.chunk(2, dim=-1)
    return torch.addcmul(heads * cosine, torch.cat((-second, first), dim=-1), sine)


def _rotary_tables(architecture: Architecture) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin, (P, D) float32 each, for every position."""
    exponents = torch.arange(0, architecture.head_dim, 2).float() / architecture.head_dim
    angles = torch.outer(torch.arange(architecture.max_positions).float(), architecture.rope_theta**-exponents)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def _require_weights(weights: dict[str, torch.Tensor], architecture: Architecture) -> None:
    """Every projection there, in the shape that config.json promises."""
    for layer in range(architecture.num_layers):
        for name, shape in architecture.projection_shapes().items():
            tensor = weights.get(f"model.layers.{layer}.{name}.weight")
            found = None if tensor is None else tuple(tensor.shape)
            if found != shape:
                raise UnsupportedModelError(f"layer {layer} {name} has shape {found}, config.json says {shape}")
