"""A tiny decoder, batches for it, and its weights under the oracle's names."""

from __future__ import annotations

import numpy as np

from llmstack.config.model import ModelConfig
from llmstack.models.weights import export_arrays
from tests.reference.decoder import Shape

TINY = {
    "family": "llama",
    "hidden_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "intermediate_size": 28,
    "vocab_size": 37,
    "max_position_embeddings": 64,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    # large, so that every part of the network matters to the result
    "initializer_range": 0.3,
}

_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
FAMILY_CHANGES = {
    "llama_biases": {"attention_bias": True, "attention_out_bias": True, "mlp_bias": True},
    "llama_linear": {"rope_scaling": {"rope_type": "linear", "factor": 2.5}, "tie_word_embeddings": True},
    "llama3": {"rope_scaling": _LLAMA3, "rope_theta": 100.0},
    "llama_yarn": {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        "rope_theta": 100.0,
        "head_dim": 10,
    },
    "mistral_window": {"family": "mistral", "sliding_window": 4},
    "mistral": {"family": "mistral"},
    "qwen2": {"family": "qwen2", "attention_bias": True, "hidden_size": 24, "tie_word_embeddings": True},
    "qwen3": {"family": "qwen3", "qk_norm": True, "head_dim": 8},
    "qwen3_biases": {"family": "qwen3", "qk_norm": True, "attention_bias": True, "attention_out_bias": True},
}
"""What the families have beside a plain Llama."""


def tiny_config(**changes):
    """A decoder small enough to compile in a second, with grouped queries and no size a multiple of another."""
    return ModelConfig(**{**TINY, **changes})


def oracle_shape(config):
    """What ``tests.reference.decoder`` wants to know of a configuration."""
    return Shape(
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        rope_theta=config.rope_theta,
        rms_norm_eps=config.rms_norm_eps,
    )


def oracle_weights(model):
    """A model's parameters under Hugging Face's names, cut by hand rather than by the code under test."""
    c, ours = model.config, export_arrays(model)
    q, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    weights = {
        "model.embed_tokens.weight": ours["trunk.embedding"],
        "model.norm.weight": ours["trunk.norm.weight"],
    }
    for theirs, name in (("lm_head.weight", "head.weight"), ("score.weight", "score.weight")):
        if name in ours:
            weights[theirs] = ours[name]
    for i in range(c.num_hidden_layers):
        block, layer = f"trunk.blocks.{i}", f"model.layers.{i}"
        qkv, gate_up = ours[f"{block}.attention.qkv.weight"], ours[f"{block}.mlp.gate_up.weight"]
        weights |= {
            f"{layer}.self_attn.q_proj.weight": qkv[:q],
            f"{layer}.self_attn.k_proj.weight": qkv[q : q + kv],
            f"{layer}.self_attn.v_proj.weight": qkv[q + kv :],
            f"{layer}.self_attn.o_proj.weight": ours[f"{block}.attention.out.weight"],
            f"{layer}.mlp.gate_proj.weight": gate_up[: c.intermediate_size],
            f"{layer}.mlp.up_proj.weight": gate_up[c.intermediate_size :],
            f"{layer}.mlp.down_proj.weight": ours[f"{block}.mlp.down.weight"],
            f"{layer}.input_layernorm.weight": ours[f"{block}.attention_norm.weight"],
            f"{layer}.post_attention_layernorm.weight": ours[f"{block}.mlp_norm.weight"],
        }
    return weights


def vary_norms(model, seed=0):
    """Move the norm weights away from 1, where a mistake in them would not show."""
    rng = np.random.default_rng(seed)
    for parameter in model.trainable_params():
        if parameter.ndim == 1:
            parameter.set_data(type(parameter)(rng.normal(1.0, 0.2, parameter.shape).astype(np.float32)))


def rows(lengths_of_rows, num_tokens, *, pad_left=0, seed=0, vocab_size=TINY["vocab_size"]):
    """Rows of packed documents.

    Args:
        lengths_of_rows: for each row the lengths of its documents; the rest of the row is padding.
        num_tokens: T.
        pad_left: pads before the first document of each row.
        seed: of the tokens; pads get random tokens too, since nothing may depend on them.

    Returns:
        (tokens_BT, positions_BT, segments_BT) int32; segments are 0 on pads.
    """
    rng = np.random.default_rng(seed)
    shape = (len(lengths_of_rows), num_tokens)
    tokens = rng.integers(0, vocab_size, shape).astype(np.int32)
    positions, segments = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for row, lengths in enumerate(lengths_of_rows):
        start = pad_left
        for number, length in enumerate(lengths, start=1):
            positions[row, start : start + length] = np.arange(length)
            segments[row, start : start + length] = number
            start += length
    return tokens, positions, segments
