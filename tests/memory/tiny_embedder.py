"""A complete sentence-transformers directory: a one-layer random BERT, mean pooling, a word tokenizer."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

HIDDEN, INTERMEDIATE, POSITIONS = 16, 32, 64
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = (*_SPECIAL, "what", "is", "a", "glacier", "the", "dog", "river", "of", "ice", "egg", "boil", "slow")
_LINEAR = {
    "encoder.layer.0.attention.self.query": (HIDDEN, HIDDEN),
    "encoder.layer.0.attention.self.key": (HIDDEN, HIDDEN),
    "encoder.layer.0.attention.self.value": (HIDDEN, HIDDEN),
    "encoder.layer.0.attention.output.dense": (HIDDEN, HIDDEN),
    "encoder.layer.0.intermediate.dense": (INTERMEDIATE, HIDDEN),
    "encoder.layer.0.output.dense": (HIDDEN, INTERMEDIATE),
    "pooler.dense": (HIDDEN, HIDDEN),
}
_NORMS = ("embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm")


def make_tiny_embedder(directory: Path, *, seed: int = 0) -> Path:
    """Write all files and return the directory."""
    (directory / "1_Pooling").mkdir(parents=True)
    files = {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "vocab_size": len(_WORDS),
            "hidden_size": HIDDEN,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": INTERMEDIATE,
            "max_position_embeddings": POSITIONS,
            "type_vocab_size": 2,
            "dtype": "float32",
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": POSITIONS,
            **{f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")},
        },
        "sentence_bert_config.json": {"max_seq_length": POSITIONS, "do_lower_case": False},
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True},
    }
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
    _write_tokenizer(directory / "tokenizer.json")
    save_file(_weights(seed), directory / "model.safetensors", metadata={"format": "pt"})
    return directory


def _write_tokenizer(path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(_WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(list(_SPECIAL))
    tokenizer.save(str(path))


def _weights(seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32)

    tables = {"word": len(_WORDS), "position": POSITIONS, "token_type": 2}
    weights = {f"embeddings.{name}_embeddings.weight": normal(count, HIDDEN) for name, count in tables.items()}
    for name, shape in _LINEAR.items():
        weights |= {f"{name}.weight": normal(*shape) / 4, f"{name}.bias": normal(shape[0]) / 4}
    for name in _NORMS:
        weights |= {f"{name}.weight": np.ones(HIDDEN, np.float32), f"{name}.bias": np.zeros(HIDDEN, np.float32)}
    return weights
