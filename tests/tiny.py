"""A complete model directory in under a second: 2 random layers, a real small tokenizer, a chat template.

Written by hand in the layout of the Hugging Face checkpoints, so that it can be compared with transformers without
being made by it.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, MAX_POSITIONS = 64, 2, 4, 2, 16, 128, 2048
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
_SENTENCES = (
    "What is a glacier? A glacier is a slow river of ice.",
    "Why is sleep important? Sleep lets the body and the mind recover.",
    "How do I boil an egg? Put it in boiling water for eight minutes.",
    "Write a short story about a lighthouse keeper who talks to the sea at night.",
    "Please answer in one short sentence, that was far too long for me.",
    "The quick brown fox jumps over the lazy dog, then user and assistant and system say thanks.",
)


def make_tiny_model(directory: Path, *, family: str = "llama", seed: int = 0) -> Path:
    """Write config, weights and tokenizer into `directory` (made if absent) and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    vocab_size = _write_tokenizer(directory)
    config = {
        "architectures": [_ARCHITECTURES[family]],
        "model_type": family,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": vocab_size,
        "max_position_embeddings": MAX_POSITIONS,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": family == "llama",
        "hidden_act": "silu",
        "dtype": "float32",
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2))
    (directory / "generation_config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": 2}))
    save_file(_weights(family, vocab_size, seed), directory / "model.safetensors", metadata={"format": "pt"})
    return directory


def make_tiny_adapter(
    directory: Path, model_dir: Path, *, seed: int = 1, scale: float = 0.3, base_fingerprint: str | None = None
) -> Path:
    """Write a PEFT directory that adapts all seven projections of both layers; `scale` 0 leaves logits unmoved."""
    directory.mkdir(parents=True, exist_ok=True)
    rank, generator = 4, torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(LAYERS):
        for name, (out, width) in _projections().items():
            prefix = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{prefix}.lora_A.weight"] = torch.randn(rank, width, generator=generator) / width**0.5
            tensors[f"{prefix}.lora_B.weight"] = torch.randn(out, rank, generator=generator) * scale
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(model_dir),
        "r": rank,
        "lora_alpha": 8,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": [name.split(".")[1] for name in _projections()],
        "inference_mode": True,
    }
    (directory / "adapter_config.json").write_text(json.dumps(config, indent=2))
    metadata = {"format": "pt"} | ({"base_fingerprint": base_fingerprint} if base_fingerprint else {})
    save_file(tensors, directory / "adapter_model.safetensors", metadata=metadata)
    return directory


def _projections() -> dict[str, tuple[int, int]]:
    """(out, in) by name."""
    query, key = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    return {
        "self_attn.q_proj": (query, HIDDEN),
        "self_attn.k_proj": (key, HIDDEN),
        "self_attn.v_proj": (key, HIDDEN),
        "self_attn.o_proj": (HIDDEN, query),
        "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
        "mlp.up_proj": (INTERMEDIATE, HIDDEN),
        "mlp.down_proj": (HIDDEN, INTERMEDIATE),
    }


def _weights(family: str, vocab_size: int, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, deviation: float = 0.15) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * deviation

    weights = {"model.embed_tokens.weight": normal(vocab_size, HIDDEN, deviation=0.5)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{prefix}{norm}.weight"] = 1 + normal(HIDDEN)
        for name, shape in _projections().items():
            weights[f"{prefix}{name}.weight"] = normal(*shape)
            if family == "qwen2" and name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
                weights[f"{prefix}{name}.bias"] = normal(shape[0])
        if family == "qwen3":
            weights[f"{prefix}self_attn.q_norm.weight"] = 1 + normal(HEAD_DIM)
            weights[f"{prefix}self_attn.k_norm.weight"] = 1 + normal(HEAD_DIM)
    weights["model.norm.weight"] = 1 + normal(HIDDEN)
    if family != "llama":
        weights["lm_head.weight"] = normal(vocab_size, HIDDEN, deviation=0.5)
    return weights


def _write_tokenizer(directory: Path) -> int:
    """Train a byte-level BPE on a few sentences; returns the vocabulary's size."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_SENTENCES, trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL_TOKENS[0],
        "eos_token": SPECIAL_TOKENS[2],
        "pad_token": SPECIAL_TOKENS[2],
        "model_max_length": MAX_POSITIONS,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2))
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return tokenizer.get_vocab_size()
