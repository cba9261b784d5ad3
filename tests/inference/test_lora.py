"""Adapters: PEFT's own numbers, and one clear line for each way a directory can be wrong."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agent.inference.batch import Chunk, plan_batch
from agent.inference.kv_cache import KVCache
from agent.inference.lora import Adapter, load_adapter
from agent.inference.model import DecoderModel
from memory.completions import AdapterRejected
from tests.tiny import make_tiny_adapter

TOKENS = [(13 * i) % 390 + 3 for i in range(40)]


def logprobs_under(model: DecoderModel, adapters: list[Adapter | None]) -> list[torch.Tensor]:
    """(T, V) for each adapter, all in one batch."""
    cache = KVCache(model.architecture, num_slots=len(adapters), slot_tokens=64)
    chunks = [Chunk(slot=i, adapter=adapter, start=0, token_ids=TOKENS) for i, adapter in enumerate(adapters)]
    with torch.inference_mode():
        batch = plan_batch(chunks)
        logprobs = model.logits(model.forward(batch, cache)).log_softmax(-1)
    by_chunk = {index: logprobs[end - len(TOKENS) : end] for index, end in zip(batch.order, batch.ends, strict=True)}
    return [by_chunk[index] for index in range(len(adapters))]


def test_adapters_equal_peft(model: DecoderModel, tiny_model: Path, adapter_dirs: tuple[Path, Path]) -> None:
    """An adapter's logprobs are those of peft on transformers, and far from the base model's."""
    from peft import PeftModel  # noqa: PLC0415 - seconds to import, only needed here
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        reference = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_model), str(adapter_dirs[0]))
        expected = reference(torch.tensor([TOKENS])).logits[0].log_softmax(-1)
    ours, base = logprobs_under(model, [load_adapter(adapter_dirs[0], model.architecture), None])
    torch.testing.assert_close(ours, expected, atol=2e-4, rtol=0)
    assert (base - expected).abs().max() > 1


def test_versions_mix_in_one_batch(model: DecoderModel, adapters: tuple[Adapter, Adapter]) -> None:
    """Each sequence is computed under its own adapter, whatever the others in its batch use."""
    first, second = adapters
    mixed = logprobs_under(model, [second, None, first, second, None])
    for adapter, logprobs in zip([second, None, first, second, None], mixed, strict=True):
        torch.testing.assert_close(logprobs, logprobs_under(model, [adapter])[0], atol=1e-4, rtol=0)


def test_zero_adapter_leaves_logits_bitwise_unmoved(model: DecoderModel, tiny_model: Path, tmp_path: Path) -> None:
    """A fresh adapter, whose up factors are zero, changes nothing."""
    fresh = load_adapter(make_tiny_adapter(tmp_path, tiny_model, scale=0.0), model.architecture)
    assert torch.equal(logprobs_under(model, [fresh])[0], logprobs_under(model, [None])[0])


def _edit_config(directory: Path, **changes: object) -> None:
    path = directory / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _edit_tensors(directory: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = directory / "adapter_model.safetensors"
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)


def _truncate(directory: Path) -> None:
    path = directory / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


_A = "base_model.model.model.layers.1.mlp.up_proj.lora_A.weight"
_DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (_truncate, "damaged"),
    "no weights": (lambda d: (d / "adapter_model.safetensors").unlink(), "does not exist"),
    "no config": (lambda d: (d / "adapter_config.json").unlink(), "does not exist"),
    "config is not json": (lambda d: (d / "adapter_config.json").write_text("{"), "cannot be read"),
    "not LoRA": (lambda d: _edit_config(d, peft_type="IA3"), "IA3"),
    "DoRA": (lambda d: _edit_config(d, use_dora=True), "use_dora"),
    "bias": (lambda d: _edit_config(d, bias="all"), "bias all"),
    "rank zero": (lambda d: _edit_config(d, r=0), "rank"),
    "other rank": (lambda d: _edit_config(d, r=8), "has shape"),
    "missing half": (lambda d: _edit_tensors(d, lambda t: t.pop(_A)), "layer 1 mlp.up_proj lacks lora_A"),
    "missing layer": (
        lambda d: _edit_tensors(d, lambda t: [t.pop(name) for name in list(t) if ".layers.0." in name]),
        "layer 0 mlp.down_proj lacks lora_A",
    ),
    "empty": (lambda d: _edit_tensors(d, lambda t: t.clear()), "no tensors"),
    "stray tensor": (lambda d: _edit_tensors(d, lambda t: t.update(stray=torch.ones(1))), "stray"),
    "not finite": (lambda d: _edit_tensors(d, lambda t: t[_A].fill_(float("nan"))), "not finite"),
    "wider base": (lambda d: _edit_tensors(d, lambda t: t.update({_A: torch.ones(4, 96)})), r"the base model needs"),
}


@pytest.mark.parametrize("damage", _DAMAGE)
def test_wrong_directories_are_refused_by_name(
    model: DecoderModel, adapter_dirs: tuple[Path, Path], tmp_path: Path, damage: str
) -> None:
    """Whatever is wrong with an adapter is one line that says what."""
    spoil, reason = _DAMAGE[damage]
    directory = tmp_path / "adapter"
    shutil.copytree(adapter_dirs[0], directory)
    spoil(directory)
    with pytest.raises(AdapterRejected, match=reason) as caught:
        load_adapter(directory, model.architecture)
    assert "\n" not in str(caught.value)


def test_an_adapter_of_another_base_is_refused(model: DecoderModel, tiny_model: Path, tmp_path: Path) -> None:
    """An adapter that says which base it was trained on loads on that base only."""
    directory = make_tiny_adapter(tmp_path, tiny_model, base_fingerprint="aaaa")
    assert load_adapter(directory, model.architecture, base_fingerprint="aaaa").rank == 4
    with pytest.raises(AdapterRejected, match="trained on base aaaa, this engine serves base bbbb"):
        load_adapter(directory, model.architecture, base_fingerprint="bbbb")
