"""Tiny GGUF files, written as llama.cpp's converter writes them: its names, its order of rows, its metadata."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import gguf
import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from llmstack.data.chat import CHATML

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEXTS = ("The quick brown fox jumps over the lazy dog 1234 times; it's naïve.", "def f(x):\n    return x + 17\n" * 3)

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
    "rope_theta": 5000.0,
    "rms_norm_eps": 1e-6,
}
"""Rows a multiple of 32, the block of the quantised formats."""


def byte_level(steps=None) -> tokenizers.Tokenizer:
    """A small byte-level BPE as Hugging Face's tokenizer.json of a model has it."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = steps or pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    return backend


@functools.cache
def plain_tokenizer() -> tokenizers.Tokenizer:
    return byte_level()


def tokenizer_metadata(backend: tokenizers.Tokenizer, pre: str = "gpt-2", *, size: int | None = None) -> dict:
    """What the converter writes about a byte-level tokenizer, filled up to ``size`` tokens."""
    vocab = backend.get_vocab(with_added_tokens=True)
    tokens = sorted(vocab, key=lambda token: vocab[token])
    special = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    types = [CONTROL if token in special else NORMAL for token in tokens]
    for index in range(len(tokens), size or 0):
        tokens.append(f"[PAD{index}]")
        types.append(UNUSED)
    merges = json.loads(backend.to_str())["model"]["merges"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in merges],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.chat_template": CHATML,
    }


def model_metadata(arch: str, **sizes) -> dict:
    """What the converter writes about a model's sizes."""
    s = SIZES | sizes
    return {
        "general.architecture": arch,
        f"{arch}.block_count": s["num_hidden_layers"],
        f"{arch}.context_length": s["max_position_embeddings"],
        f"{arch}.embedding_length": s["hidden_size"],
        f"{arch}.feed_forward_length": s["intermediate_size"],
        f"{arch}.attention.head_count": s["num_attention_heads"],
        f"{arch}.attention.head_count_kv": s["num_key_value_heads"],
        f"{arch}.attention.key_length": s["head_dim"],
        f"{arch}.attention.value_length": s["head_dim"],
        f"{arch}.attention.layer_norm_rms_epsilon": s["rms_norm_eps"],
        f"{arch}.rope.freq_base": s["rope_theta"],
    }


def hf_weights(arch: str, vocab_size: int, *, tied: bool, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights of a tiny model under Hugging Face's names."""
    s, rng = SIZES, np.random.default_rng(seed)
    wide, q = s["hidden_size"], s["num_attention_heads"] * s["head_dim"]
    kv, deep = s["num_key_value_heads"] * s["head_dim"], s["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab_size, wide), "model.norm.weight": (wide,)}
    if not tied:
        shapes["lm_head.weight"] = (vocab_size, wide)
    for i in range(s["num_hidden_layers"]):
        layer = {
            "self_attn.q_proj.weight": (q, wide),
            "self_attn.k_proj.weight": (kv, wide),
            "self_attn.v_proj.weight": (kv, wide),
            "self_attn.o_proj.weight": (wide, q),
            "mlp.gate_proj.weight": (deep, wide),
            "mlp.up_proj.weight": (deep, wide),
            "mlp.down_proj.weight": (wide, deep),
            "input_layernorm.weight": (wide,),
            "post_attention_layernorm.weight": (wide,),
        }
        if arch == "qwen2":
            layer |= {f"self_attn.{n}_proj.bias": (rows,) for n, rows in (("q", q), ("k", kv), ("v", kv))}
        if arch == "qwen3":
            layer |= {f"self_attn.{n}_norm.weight": (s["head_dim"],) for n in "qk"}
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    return {name: rng.normal(0.5, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def permuted(array: np.ndarray, heads: int) -> np.ndarray:
    """The converter's order of rows: the two halves of each head interleaved."""
    half = array.shape[0] // heads // 2
    order = [head * 2 * half + part * half + e for head in range(heads) for e in range(half) for part in (0, 1)]
    return array[order]


def gguf_name(name: str, arch: str) -> str:
    """The converter's name of a weight, from the package's own table."""
    table = gguf.get_tensor_name_map({v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch], SIZES["num_hidden_layers"])
    found = table.get_name(name, try_suffixes=(".weight", ".bias"))
    assert found is not None, name
    return found


def write_gguf(path: Path, metadata: dict, tensors: dict[str, np.ndarray], *, quant: str = "F32") -> Path:
    """Write a file; matrices in the format ``quant``, vectors in float32."""
    writer = gguf.GGUFWriter(path, metadata["general.architecture"])
    for key, value in metadata.items():
        if key == "general.architecture":
            continue
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add.get(type(value), writer.add_array)(key, value)
    kind = gguf.GGMLQuantizationType[quant]
    for name, array in tensors.items():
        raw_kind = kind if array.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(array, raw_kind), raw_dtype=raw_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors_of(weights: dict[str, np.ndarray], arch: str) -> dict[str, np.ndarray]:
    """Weights as the converter stores them."""
    heads = {"q_proj": SIZES["num_attention_heads"], "k_proj": SIZES["num_key_value_heads"]}
    stored = {}
    for name, array in weights.items():
        part = name.split(".")[-2]
        stored[gguf_name(name, arch)] = permuted(array, heads[part]) if arch == "llama" and part in heads else array
    return stored


def model_file(path: Path, arch: str = "llama", *, quant: str = "F32", tied: bool = True, **changes) -> dict:
    """A whole tiny model; returns its weights under Hugging Face's names.

    ``metadata={...}`` and ``tensors={...}`` replace single ones; None removes one.
    """
    tensor_changes = changes.pop("tensors", {})
    backend = plain_tokenizer()
    size = backend.get_vocab_size() + 3
    weights = hf_weights(arch, size, tied=tied)
    metadata = model_metadata(arch) | tokenizer_metadata(backend, size=size) | changes.pop("metadata", {})
    tensors = tensors_of(weights, arch) | tensor_changes
    write_gguf(
        path,
        {key: value for key, value in metadata.items() if value is not None},
        {name: array for name, array in tensors.items() if array is not None},
        quant=quant,
    )
    return weights
