"""What must never be served is refused, each with its own reason."""

from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from memory.files import sha256_of
from tests.tiny import make_tiny_adapter
from updater.adapter import AdapterUnusable, check_adapter, delta_norm, publish_directory
from updater.training import ADAPTER_FILE

BASE = "b" * 64


@pytest.fixture
def adapter(tiny_model: Path, tmp_path: Path) -> Path:
    return make_tiny_adapter(tmp_path / "adapter", tiny_model, base_fingerprint=BASE)


def refuse(directory: Path, *, sha256: str | None = None, base: str = BASE, parent: Path | None = None) -> str:
    digest = sha256 or sha256_of(directory / ADAPTER_FILE)
    with pytest.raises(AdapterUnusable) as caught:
        check_adapter(directory, sha256=digest, base_fingerprint=base, parent=parent)
    return str(caught.value)


def test_a_good_adapter_passes(adapter: Path) -> None:
    """Whole bytes, the right base and moved weights are all that is asked."""
    check_adapter(adapter, sha256=sha256_of(adapter / ADAPTER_FILE), base_fingerprint=BASE, parent=None)


def test_truncated_bytes_are_refused(adapter: Path) -> None:
    """A file cut short is called damaged."""
    digest = sha256_of(adapter / ADAPTER_FILE)
    (adapter / ADAPTER_FILE).write_bytes((adapter / ADAPTER_FILE).read_bytes()[:-64])
    assert "damaged" in refuse(adapter, sha256=digest)


def test_a_flipped_bit_is_refused(adapter: Path) -> None:
    """One bit in the body, which safetensors itself does not notice, changes the hash."""
    digest = sha256_of(adapter / ADAPTER_FILE)
    content = bytearray((adapter / ADAPTER_FILE).read_bytes())
    content[-100] ^= 0b100
    (adapter / ADAPTER_FILE).write_bytes(bytes(content))
    assert "sha256" in refuse(adapter, sha256=digest)


def test_another_base_is_refused(adapter: Path) -> None:
    """An adapter says which base it was trained on, and is served on no other."""
    assert "another base" in refuse(adapter, base="c" * 64)


def test_unmoved_weights_are_refused(adapter: Path) -> None:
    """An adapter equal to its parent is a training run that did nothing."""
    assert "no weight moved" in refuse(adapter, parent=adapter)


def test_values_that_are_not_finite_are_refused(adapter: Path) -> None:
    """NaN in one tensor names that tensor."""
    tensors = load_file(adapter / ADAPTER_FILE)
    name = min(tensors)
    tensors[name][0, 0] = float("nan")
    save_file(tensors, adapter / ADAPTER_FILE, metadata={"base_fingerprint": BASE})
    assert name in refuse(adapter)


def test_delta_norm_is_the_norm_of_the_product(adapter: Path) -> None:
    """Zero against itself; against the base the norm of all products, computed here at full size."""
    tensors = load_file(adapter / ADAPTER_FILE)
    products = [
        2.0 * tensors[name.replace("lora_A", "lora_B")] @ down for name, down in tensors.items() if "lora_A" in name
    ]
    assert delta_norm(adapter, adapter) == 0.0
    assert delta_norm(adapter, None) == pytest.approx(sum(float((p**2).sum()) for p in products) ** 0.5, rel=1e-5)


def test_published_directory_is_the_same_bytes(adapter: Path, tmp_path: Path) -> None:
    """Publication copies and leaves no temporary name behind; a second time changes nothing."""
    target = tmp_path / "versions" / "v1"
    publish_directory(adapter, target)
    publish_directory(adapter, target)
    assert sha256_of(target / ADAPTER_FILE) == sha256_of(adapter / ADAPTER_FILE)
    assert [path.name for path in target.parent.iterdir()] == ["v1"]
