"""A whole Llama decoder from Hugging Face's weights.

Touvron et al. 2023 (LLaMA), section 2.2: pre-norm, RMSNorm, SwiGLU, rotary positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.reference.attention import attention
from tests.reference.mlp import swiglu
from tests.reference.norm import rms_norm
from tests.reference.rope import rotate


@dataclass(frozen=True)
class Shape:
    """What the weights alone do not tell."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    rms_norm_eps: float


def random_weights(rng, shape, *, width, mlp_width, vocab_size, head="own"):
    """Weights under Hugging Face's Llama names, float32, large enough that every part matters to the result.

    Args:
        rng: numpy Generator.
        shape: the decoder's shape.
        width: D. mlp_width: F. vocab_size: V.
        head: own ``lm_head.weight`` (V, D), ``tied`` to the embedding, or ``scalar``: ``score.weight`` (1, D).

    Returns:
        dict name -> array.
    """

    def normal(*dims):
        return rng.normal(0.0, 0.3, dims).astype(np.float32)

    def gain():
        return (1.0 + rng.normal(0.0, 0.1, width)).astype(np.float32)

    q_width, kv_width = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    weights = {"model.embed_tokens.weight": normal(vocab_size, width), "model.norm.weight": gain()}
    for i in range(shape.num_layers):
        layer = f"model.layers.{i}"
        weights |= {
            f"{layer}.self_attn.q_proj.weight": normal(q_width, width),
            f"{layer}.self_attn.k_proj.weight": normal(kv_width, width),
            f"{layer}.self_attn.v_proj.weight": normal(kv_width, width),
            f"{layer}.self_attn.o_proj.weight": normal(width, q_width),
            f"{layer}.mlp.gate_proj.weight": normal(mlp_width, width),
            f"{layer}.mlp.up_proj.weight": normal(mlp_width, width),
            f"{layer}.mlp.down_proj.weight": normal(width, mlp_width),
            f"{layer}.input_layernorm.weight": gain(),
            f"{layer}.post_attention_layernorm.weight": gain(),
        }
    if head == "scalar":
        weights["score.weight"] = normal(1, width)
    elif head == "own":
        weights["lm_head.weight"] = normal(vocab_size, width)
    return weights


def hidden_states(weights, shape, tokens_BT, positions_BT, segments_BT):
    """The decoder's output after its last norm.

    ``x += attention(norm(x))``, then ``x += mlp(norm(x))``, for each layer.

    Args:
        weights: Hugging Face Llama names -> arrays, see ``random_weights``.
        shape: the decoder's shape.
        tokens_BT: (B, T) ids. positions_BT: (B, T). segments_BT: (B, T), 0 for pads.

    Returns:
        (B, T, D) float64.
    """
    weights = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    num_rows, num_tokens = np.shape(tokens_BT)
    x = weights["model.embed_tokens.weight"][np.asarray(tokens_BT)]
    for i in range(shape.num_layers):
        layer = f"model.layers.{i}"

        def project(name, normed, heads, layer=layer):
            out = normed @ weights[f"{layer}.self_attn.{name}_proj.weight"].T
            return out.reshape(num_rows, num_tokens, heads, shape.head_dim)

        normed = rms_norm(x, weights[f"{layer}.input_layernorm.weight"], shape.rms_norm_eps)
        q = rotate(project("q", normed, shape.num_heads), positions_BT, shape.rope_theta)
        k = rotate(project("k", normed, shape.num_kv_heads), positions_BT, shape.rope_theta)
        mixed = attention(q, k, project("v", normed, shape.num_kv_heads), segments_BT)
        x = x + mixed.reshape(num_rows, num_tokens, -1) @ weights[f"{layer}.self_attn.o_proj.weight"].T
        normed = rms_norm(x, weights[f"{layer}.post_attention_layernorm.weight"], shape.rms_norm_eps)
        mlp = (weights[f"{layer}.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        x = x + swiglu(normed, *mlp)
    return rms_norm(x, weights["model.norm.weight"], shape.rms_norm_eps)


def logits(weights, shape, tokens_BT, positions_BT, segments_BT):
    """Next-token logits (B, T, V); the head is the embedding when ``lm_head.weight`` is absent (tied)."""
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return hidden_states(weights, shape, tokens_BT, positions_BT, segments_BT) @ np.asarray(head, np.float64).T


def scores(weights, shape, tokens_BT, positions_BT, segments_BT):
    """Scalar head (B, T): a reward model's score at the last index, a value model's value everywhere."""
    states = hidden_states(weights, shape, tokens_BT, positions_BT, segments_BT)
    return (states @ np.asarray(weights["score.weight"], np.float64).T)[..., 0]


def greedy(weights, shape, prompt, max_new_tokens, eos_ids):
    """Greedy decoding of one prompt without a cache: the whole sequence again for every token.

    Returns:
        list of new ids, the end id included when one was reached.
    """
    ids = list(prompt)
    for _ in range(max_new_tokens):
        positions, segments = np.arange(len(ids))[None], np.ones((1, len(ids)), int)
        ids.append(int(np.argmax(logits(weights, shape, np.array([ids]), positions, segments)[0, -1])))
        if ids[-1] in eos_ids:
            break
    return ids[len(prompt) :]
