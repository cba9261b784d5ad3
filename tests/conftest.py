"""What all tests share: few threads, the tiny model, and the starter models, prepared once per machine."""

import os
from pathlib import Path

# Before torch is loaded by whoever loads it first: two test runs on a small machine must not fight over its cores.
for _variable, _value in (
    ("OMP_NUM_THREADS", "1"),
    ("OMP_WAIT_POLICY", "PASSIVE"),
    ("TOKENIZERS_PARALLELISM", "false"),
    ("HF_HUB_OFFLINE", "1"),
):
    os.environ.setdefault(_variable, _value)

import pytest  # noqa: E402

from agent.config import model_cache_dir  # noqa: E402
from agent.sources import PreparedModel, prepare  # noqa: E402
from agent.tables import Settings  # noqa: E402
from memory.tokens import Tokenizer  # noqa: E402


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model directory, random weights and all. Nothing may change it."""
    from tests.tiny import make_tiny_model  # noqa: PLC0415 - loads torch, which most tests do without

    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tokenizer(tiny_model: Path) -> Tokenizer:
    """The tiny model's."""
    return Tokenizer.load(tiny_model)


@pytest.fixture(scope="session")
def starter_model() -> PreparedModel:
    """The policy that a new daemon starts with; fetched and converted by the first test that asks for it."""
    settings = Settings()
    return prepare(settings.policy.source, model_cache_dir(settings), report=lambda *_: None)


@pytest.fixture(scope="session")
def starter_embedder() -> PreparedModel:
    """The embedder that a new daemon starts with."""
    settings = Settings()
    return prepare(settings.embedder.source, model_cache_dir(settings), report=lambda *_: None)
