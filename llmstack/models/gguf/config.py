"""``config.json`` from the metadata of a GGUF file."""

from __future__ import annotations

from typing import Any

import numpy as np

from llmstack.errors import UserError
from llmstack.models.gguf.reader import GgufFile
from llmstack.models.gguf.weights import ROPE_FACTORS

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
"""GGUF's ``general.architecture``, which is also Hugging Face's ``model_type`` here -> its class."""

_READ_KEYS = {
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    # says that long contexts were trained on: nothing to compute differently
    "rope.scaling.finetuned",
}
_HARMLESS_VALUES = {"expert_count": 0, "expert_used_count": 0, "attention.causal": True, "use_parallel_residual": False}
# Llama 3.1 and later: the constants the converter takes when it writes the factors in place of these
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_FACTOR_RTOL = 1e-4


def config_json(file: GgufFile) -> dict[str, Any]:
    """The content of the model's ``config.json``.

    Args:
        file: the GGUF file.

    Returns:
        Hugging Face's keys, without token ids and dtype.

    Raises:
        UserError: an architecture, a rope type or another feature that is not implemented, or a missing key.
    """
    arch = file.get("general.architecture", str)
    if arch not in ARCHITECTURES:
        raise UserError(
            f"{file.path}: general.architecture: expected one of {', '.join(ARCHITECTURES)}, got {arch!r}. "
            "Use a model of one of these."
        )
    _refuse_unknown_keys(file, arch)
    hidden = file.get(f"{arch}.embedding_length", int)
    heads = file.get(f"{arch}.attention.head_count", int)
    head_dim = _head_dim(file, arch, hidden, heads)
    theta = _decimal(file.get(f"{arch}.rope.freq_base", float, 10000.0))
    layer = [name for name in file.tensors if name.startswith("blk.0.")]
    return {
        "architectures": [ARCHITECTURES[arch]],
        "model_type": arch,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "num_hidden_layers": file.get(f"{arch}.block_count", int),
        "num_attention_heads": heads,
        "num_key_value_heads": file.get(f"{arch}.attention.head_count_kv", int, heads),
        "head_dim": head_dim,
        "intermediate_size": file.get(f"{arch}.feed_forward_length", int),
        "vocab_size": _vocab_size(file),
        "max_position_embeddings": file.get(f"{arch}.context_length", int),
        "rope_theta": theta,
        "rope_scaling": _rope_scaling(file, arch, theta, head_dim),
        "rms_norm_eps": _decimal(file.get(f"{arch}.attention.layer_norm_rms_epsilon", float)),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "initializer_range": 0.02,
    } | (
        {
            "attention_bias": any(name.startswith("blk.0.attn_") and name.endswith(".bias") for name in layer),
            "mlp_bias": any(name.startswith("blk.0.ffn_") and name.endswith(".bias") for name in layer),
        }
        if arch != "qwen2"  # there they always have one
        else {}
    )


def _refuse_unknown_keys(file: GgufFile, arch: str) -> None:
    """A key nobody reads may change what the model computes."""
    for key, value in file.metadata.items():
        name = key.removeprefix(f"{arch}.")
        if name == key or name in _READ_KEYS or _HARMLESS_VALUES.get(name, ()) == value:
            continue
        raise UserError(
            f"{file.path}: {key}: expected a model without it, got {value!r}, which is not implemented for {arch}. "
            "Use another model."
        )


def _head_dim(file: GgufFile, arch: str, hidden: int, heads: int) -> int:
    if heads < 1 or hidden < 1:
        raise UserError(f"{file.path}: expected sizes above 0, got {heads} heads and width {hidden}. Convert it again.")
    head_dim = file.get(f"{arch}.attention.key_length", int, hidden // heads)
    for key in (f"{arch}.attention.value_length", f"{arch}.rope.dimension_count"):
        value = file.get(key, int, head_dim)
        if value != head_dim:
            raise UserError(
                f"{file.path}: {key}: expected {head_dim}, the width of a head, got {value}, which is not implemented. "
                "Use another model."
            )
    return head_dim


def _vocab_size(file: GgufFile) -> int:
    num_tokens = len(file.get("tokenizer.ggml.tokens", list))
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise UserError(f"{file.path}: expected the matrix token_embd.weight, got none. Copy or convert it again.")
    if num_tokens > embedding.shape[0]:
        raise UserError(
            f"{file.path}: expected a tokenizer of at most the model's {embedding.shape[0]} ids, got one of "
            f"{num_tokens}. Convert the model with its own tokenizer."
        )
    return embedding.shape[0]


def _rope_scaling(file: GgufFile, arch: str, theta: float, head_dim: int) -> dict[str, Any] | None:
    kind = file.get(f"{arch}.rope.scaling.type", str, "none")
    if ROPE_FACTORS in file.tensors:
        return _llama3_scaling(file, kind, theta, head_dim)
    if kind == "none":
        return None
    scaling: dict[str, Any] = {"rope_type": kind, "factor": _decimal(file.get(f"{arch}.rope.scaling.factor", float))}
    if kind == "linear":
        return scaling
    if kind != "yarn":
        raise UserError(
            f"{file.path}: {arch}.rope.scaling.type: expected none, linear or yarn, got {kind!r}. Use another model."
        )
    original = file.get(f"{arch}.rope.scaling.original_context_length", int)
    scaling["original_max_position_embeddings"] = original
    for name in ("beta_fast", "beta_slow"):
        key = f"{arch}.rope.scaling.yarn_{name}"
        if key in file.metadata:
            scaling[name] = _decimal(file.get(key, float))
    return scaling


def _llama3_scaling(file: GgufFile, kind: str, theta: float, head_dim: int) -> dict[str, Any] | None:
    """The parameters behind the stored factors, which the converter writes in their place."""
    stored = file.tensors[ROPE_FACTORS].read().reshape(-1)
    factor = round(float(stored.max(initial=1.0)), 4)
    expected = llama3_factors(theta, head_dim, factor)
    if kind != "none" or stored.shape != expected.shape or not np.allclose(stored, expected, rtol=_FACTOR_RTOL):
        raise UserError(
            f"{file.path}: {ROPE_FACTORS}: expected the rotary factors of Llama 3.1 (low 1, high 4, original context "
            f"8192), got others (up to {factor:g}, scaling type {kind!r}). Use another model."
        )
    return None if factor == 1.0 else {"rope_type": "llama3", "factor": factor, **_LLAMA3}


def llama3_factors(theta: float, head_dim: int, factor: float) -> np.ndarray:
    """What Llama 3.1 divides each rotary frequency by, with the constants of its release.

    Wavelengths below original/high stay, those above original/low are stretched by ``factor``, those between change
    smoothly (Llama 3.1 model card's reference code).

    Args:
        theta: base of the rotary frequencies.
        head_dim: width E of a head.
        factor: how much long wavelengths are stretched.

    Returns:
        (E/2,) float64, from 1 to ``factor``.
    """
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    turns = _LLAMA3["original_max_position_embeddings"] / (2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim))
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1.0 - smooth) / factor + smooth)


def _decimal(value: float) -> float:
    """The number somebody wrote: GGUF keeps 1e-05 as the float32 nearest to it."""
    return float(str(np.float32(value)))
