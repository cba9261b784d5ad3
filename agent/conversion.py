"""One GGUF file becomes a directory of config.json, model.safetensors (fp32) and tokenizer.json. A child process.

`python -m agent.conversion FILE.gguf DIRECTORY`. Departs from what transformers gives in two points: the quantiser's
mark is taken off, since the weights are dense now; and the splitting of text before BPE follows the file's own
`tokenizer.ggml.pre`, which transformers does not read.
"""

import argparse
import json
from pathlib import Path

from gguf import GGUFReader
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from memory.child import die_with_parent, lower_priority

_ONE_FILE = "1TB"
"""Shards are never wanted: the engine maps one file."""


def convert(gguf: Path, directory: Path) -> None:
    """Read `gguf`, write the model into `directory`, which exists."""
    _save_weights(gguf, directory)
    _save_tokenizer(gguf, directory)
    _tidy_config(directory / "config.json")


def _save_weights(gguf: Path, directory: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True), dtype="float32"
    )
    for owner, mark in ((model, "hf_quantizer"), (model.config, "quantization_config")):
        if hasattr(owner, mark):
            delattr(owner, mark)
    model.save_pretrained(str(directory), max_shard_size=_ONE_FILE)


def _save_tokenizer(gguf: Path, directory: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    splitter = _pre_tokenizer(_pre_name(gguf))
    if splitter is not None:
        tokenizer.backend_tokenizer.pre_tokenizer = splitter
    tokenizer.save_pretrained(str(directory))


def _pre_name(gguf: Path) -> str:
    field = GGUFReader(str(gguf)).get_field("tokenizer.ggml.pre")
    return "" if field is None else str(field.contents())


def _pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer | None:
    """How text is cut before BPE, by the name that GGUF gives it; None where transformers' own choice is right.

    "smollm": every digit stands alone (llama.cpp: src/llama-vocab.cpp, LLAMA_VOCAB_PRE_TYPE_SMOLLM). Without it a
    line break before a digit, as in every numbered list, is cut in another way than the model was trained on.
    """
    if name != "smollm":
        return None
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])


def _tidy_config(path: Path) -> None:
    """A name that only this machine's paths explain is no part of a model."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("_name_or_path", None)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    die_with_parent()
    lower_priority(5)
    convert(arguments.gguf, arguments.directory)


if __name__ == "__main__":
    main()
