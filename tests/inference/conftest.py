"""The tiny model and adapters of it, made once a session."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agent.inference.lora import Adapter, load_adapter
from agent.inference.model import DecoderModel
from tests.tiny import make_tiny_adapter


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Several test runs share the machine; more threads only spin."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def model(tiny_model: Path) -> DecoderModel:
    return DecoderModel.load(tiny_model)


@pytest.fixture(scope="session")
def adapter_dirs(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("adapters")
    first, second = (make_tiny_adapter(root / str(seed), tiny_model, seed=seed) for seed in (1, 2))
    return first, second


@pytest.fixture(scope="session")
def adapters(adapter_dirs: tuple[Path, Path], model: DecoderModel) -> tuple[Adapter, Adapter]:
    first, second = (load_adapter(directory, model.architecture) for directory in adapter_dirs)
    return first, second
