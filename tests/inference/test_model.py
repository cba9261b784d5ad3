"""The forward pass against transformers."""

import json
import warnings
from pathlib import Path

import pytest
import torch

from agent.inference.architecture import UnsupportedModelError
from agent.inference.batch import Chunk, plan_batch
from agent.inference.kv_cache import KVCache
from agent.inference.model import DecoderModel
from tests.tiny import make_tiny_model

TOKENS = [(11 * i) % 390 + 3 for i in range(70)]


def own_logprobs(model: DecoderModel, pieces: list[list[int]]) -> torch.Tensor:
    """(T, V), the tokens given in pieces that build on one another."""
    cache = KVCache(model.architecture, num_slots=2, slot_tokens=128)
    rows, start = [], 0
    with torch.inference_mode():
        for piece in pieces:
            batch = plan_batch([Chunk(slot=1, adapter=None, start=start, token_ids=piece)])
            rows.append(model.logits(model.forward(batch, cache)).log_softmax(-1))
            start += len(piece)
    return torch.cat(rows)


def reference_logprobs(directory: Path) -> torch.Tensor:
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - seconds to import, only needed here

    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        logits: torch.Tensor = AutoModelForCausalLM.from_pretrained(directory)(torch.tensor([TOKENS])).logits
    return logits[0].log_softmax(-1)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_every_family_equals_transformers(tmp_path: Path, family: str) -> None:
    """In one pass and in cached pieces, logprobs are those of transformers' own implementation."""
    directory = make_tiny_model(tmp_path, family=family)
    model = DecoderModel.load(directory)
    expected = reference_logprobs(directory)
    for pieces in ([TOKENS], [TOKENS[:20], TOKENS[20:21], TOKENS[21:22], TOKENS[22:60], TOKENS[60:]]):
        torch.testing.assert_close(own_logprobs(model, pieces), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn"}}, "yarn"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"intermediate_size": 96}, "mlp.gate_proj"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
    ],
)
def test_what_cannot_be_computed_faithfully_is_refused(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    """A model that this forward pass would compute wrongly is refused with the reason."""
    directory = make_tiny_model(tmp_path)
    config = json.loads((directory / "config.json").read_text()) | change
    (directory / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedModelError, match=reason):
        DecoderModel.load(directory)
