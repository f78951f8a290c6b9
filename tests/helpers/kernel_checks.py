"""What every implementation of a kernel must satisfy: the oracle's values and its gradients."""

from __future__ import annotations

import numpy as np

from llmstack.nn.rotary import RotaryEmbedding
from tests.helpers.cells import differentiate, run
from tests.helpers.models import rows
from tests.reference import attention as attention_oracle
from tests.reference import logprob as logprob_oracle
from tests.reference import mlp as mlp_oracle
from tests.reference import norm as norm_oracle
from tests.reference import rope as rope_oracle
from tests.reference.differences import numerical_gradient
from tests.tolerances import F32_ATOL, F32_RTOL, GRADIENT_ATOL

THETA = 10000.0

# (rows' documents, tokens in a row, pads on the left, H, K, E)
ATTENTION_CASES = {
    "packed_grouped": (((3, 2), (2, 1, 1)), 5, 0, 4, 2, 4),
    "left_padded": (((3,), ()), 5, 2, 2, 2, 6),
}
# sizes on both sides of the 16 lanes and 48 queries that the compiled kernel works in
LONG_ATTENTION_CASES = {
    "one_token": (((1,),), 1, 0, 3, 3, 2),
    "long_grouped": (((70, 31), (101,)), 103, 0, 6, 2, 18),
    "long_left_padded": (((40, 9),), 97, 48, 2, 2, 16),
    "whole_vectors": (((64,), (32, 32)), 64, 0, 4, 1, 32),
}
# a window shorter and longer than the documents, and across the queries handled together
WINDOW_CASES = {
    "short": (ATTENTION_CASES["packed_grouped"], 2),
    "left_padded": (ATTENTION_CASES["left_padded"], 1),
}
LONG_WINDOW_CASES = {
    "long_grouped": (LONG_ATTENTION_CASES["long_grouped"], 40),
    "long_left_padded": (LONG_ATTENTION_CASES["long_left_padded"], 17),
    "longer_than_the_row": (LONG_ATTENTION_CASES["whole_vectors"], 1000),
}
NORM_CASES = ((1, 1), (3, 16), (70, 21))
SWIGLU_CASES = ((1, 1), (3, 16), (70, 21))
# rows, inputs, outputs: few rows and many, on and off the multiples of a tile's sizes, sums longer than one pass holds,
# more outputs than are packed at a time, a single one
LINEAR_CASES = (
    (1, 1, 1),
    (13, 21, 50),
    (64, 32, 96),
    (70, 1600, 17),
    (150, 40, 113),
    (97, 1600, 17),
    (100, 5, 6200),
    (130, 33, 1),
)
NLL_CASES = ((1, 2, 1.0), (5, 16, 0.7), (40, 37, 2.5))


def attention_inputs(case, seed=0):
    """``(qkv, cos, sin, segments, positions, upstream)`` for one of the cases."""
    lengths, num_tokens, pad_left, num_heads, num_kv_heads, head_dim = case
    _, positions, segments = rows(lengths, num_tokens, pad_left=pad_left, seed=seed)
    rng = np.random.default_rng(seed)
    count = positions.size
    qkv = rng.normal(size=(count, (num_heads + 2 * num_kv_heads) * head_dim)).astype(np.float32)
    cos, sin = run(RotaryEmbedding(head_dim, num_tokens, THETA), positions)
    upstream = rng.normal(size=(count, num_heads * head_dim)).astype(np.float32)
    return qkv, cos, sin, segments, positions, upstream


def _rotated_parts(case, qkv, positions):
    _, num_tokens, _, num_heads, num_kv_heads, head_dim = case
    heads = np.asarray(qkv, np.float64).reshape(-1, num_tokens, num_heads + 2 * num_kv_heads, head_dim)
    q, k, v = np.split(heads, [num_heads, num_heads + num_kv_heads], axis=2)
    return rope_oracle.rotate(q, positions, THETA), rope_oracle.rotate(k, positions, THETA), v


def attention_oracle_of(case, qkv, positions, segments, *, window=None):
    """The oracles of the rotation and of attention on a fused projection: (B*T, H*E) float64."""
    mixed = attention_oracle.attention(*_rotated_parts(case, qkv, positions), segments, window)
    return mixed.reshape(len(qkv), -1)


def attention_gradient_oracle_of(case, qkv, positions, *, segments, upstream, window=None):
    """Gradient of ``sum(upstream * attention)`` in the fused projection: (B*T, (H+2K)*E) float64."""
    q, k, v = _rotated_parts(case, qkv, positions)
    dq, dk, dv = attention_oracle.attention_gradient(
        q, k, v, segments_BT=segments, upstream_BTHE=upstream.reshape(q.shape), window=window
    )
    # a rotation's transpose is the rotation back
    parts = (rope_oracle.rotate(dq, -positions, THETA), rope_oracle.rotate(dk, -positions, THETA), dv)
    return np.concatenate(parts, axis=2).reshape(qkv.shape)


def check_attention(mask_cell, attention_cell, case, *, window=None):
    """Values and gradients against the oracles."""
    qkv, cos, sin, segments, positions, upstream = attention_inputs(case)
    mask = run(mask_cell, segments)
    (out,), (gradient,), _ = differentiate(attention_cell, (qkv, cos, sin, mask), (upstream,))
    expected = attention_gradient_oracle_of(case, qkv, positions, segments=segments, upstream=upstream, window=window)
    wanted = attention_oracle_of(case, qkv, positions, segments, window=window)
    np.testing.assert_allclose(out, wanted, rtol=0, atol=F32_ATOL)
    np.testing.assert_allclose(gradient, expected, rtol=F32_RTOL, atol=GRADIENT_ATOL)


def check_attention_by_hand(mask_cell, attention_cell):
    """Two tokens at position 0 of one document, one head of width 2; the scores of token 1 are (0, ln 3)."""
    qkv = np.array([[0, 0, 1, 0, 4, 0], [0, np.sqrt(2) * np.log(3), 0, 1, 0, 8]], np.float32)
    cos, sin = np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32)
    out = run(attention_cell, qkv, cos, sin, run(mask_cell, np.ones((1, 2), np.int32)))
    # token 0 sees itself; token 1 weighs the values (4, 0) and (0, 8) by 1/4 and 3/4
    np.testing.assert_allclose(out, [[4, 0], [1, 6]], rtol=0, atol=F32_ATOL)


def check_linear(cell, num_rows, num_inputs, num_outputs):
    """Values and both gradients against float64."""
    rng = np.random.default_rng(4)
    rows_NI = rng.normal(size=(num_rows, num_inputs)).astype(np.float32)
    weight = (rng.normal(size=(num_outputs, num_inputs)) / np.sqrt(num_inputs)).astype(np.float32)
    upstream = (rng.normal(size=(num_rows, num_outputs)) / np.sqrt(num_rows)).astype(np.float32)
    (out,), (drows, dweight), _ = differentiate(cell, (rows_NI, weight), (upstream,), wrt=(0, 1))
    x, w, g = (a.astype(np.float64) for a in (rows_NI, weight, upstream))
    np.testing.assert_allclose(out, x @ w.T, rtol=0, atol=F32_ATOL)
    np.testing.assert_allclose(drows, g @ w, rtol=0, atol=GRADIENT_ATOL)
    np.testing.assert_allclose(dweight, g.T @ x, rtol=0, atol=GRADIENT_ATOL)


def check_rms_norm(cell, eps, shape):
    """Values against the oracle, gradients against its central differences."""
    rng = np.random.default_rng(1)
    x, weight = rng.normal(size=shape).astype(np.float32), rng.normal(1.0, 0.5, shape[1]).astype(np.float32)
    upstream = rng.normal(size=shape).astype(np.float32)
    (out,), (dx, dweight), _ = differentiate(cell, (x, weight), (upstream,), wrt=(0, 1))
    np.testing.assert_allclose(out, norm_oracle.rms_norm(x, weight, eps), rtol=0, atol=F32_ATOL)

    def of_x(value):
        return float((norm_oracle.rms_norm(value, weight, eps) * upstream).sum())

    def of_weight(value):
        return float((norm_oracle.rms_norm(x, value, eps) * upstream).sum())

    np.testing.assert_allclose(dx, numerical_gradient(of_x, x), rtol=0, atol=GRADIENT_ATOL)
    np.testing.assert_allclose(dweight, numerical_gradient(of_weight, weight), rtol=0, atol=GRADIENT_ATOL)


def check_swiglu(cell, shape):
    """Values against the oracle, gradients against its central differences. ``shape`` is (N, F)."""
    rng = np.random.default_rng(2)
    gate_up = rng.normal(0.0, 2.0, (shape[0], 2 * shape[1])).astype(np.float32)
    upstream = rng.normal(size=shape).astype(np.float32)

    def gated(value):
        gate, up = np.split(np.asarray(value, np.float64), 2, axis=-1)
        return mlp_oracle.silu(gate) * up

    (out,), (gradient,), _ = differentiate(cell, (gate_up,), (upstream,))
    np.testing.assert_allclose(out, gated(gate_up), rtol=0, atol=F32_ATOL)
    expected = numerical_gradient(lambda value: float((gated(value) * upstream).sum()), gate_up)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=GRADIENT_ATOL)


def check_token_nll(cell, num_rows, vocab_size, temperature):
    """Values and the gradient through all three outputs against the analytic oracles."""
    rng = np.random.default_rng(3)
    logits = rng.normal(0.0, 3.0, (num_rows, vocab_size)).astype(np.float32)
    labels = rng.integers(0, vocab_size, num_rows).astype(np.int32)
    dnll, dlse, dentropy = (rng.normal(size=num_rows).astype(np.float32) for _ in range(3))
    (nll, lse, entropy), (gradient,), _ = differentiate(
        cell, (logits, labels, np.array([temperature], np.float32)), (dnll, dlse, dentropy)
    )
    log_softmax = logprob_oracle.log_softmax(logits, temperature)
    expected_lse = logits[:, 0].astype(np.float64) / temperature - log_softmax[:, 0]
    expected = -logprob_oracle.token_logprobs_gradient(logits, labels, dnll, temperature)
    expected += logprob_oracle.entropy_gradient(logits, dentropy, temperature)
    expected += np.exp(log_softmax) * dlse[:, None] / temperature
    expected_nll = -logprob_oracle.token_logprobs(logits, labels, temperature)
    expected_entropy = logprob_oracle.entropy(logits, temperature)
    # log-partitions of order 10
    np.testing.assert_allclose(nll, expected_nll, rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose(lse, expected_lse, rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose(entropy, expected_entropy, rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=GRADIENT_ATOL)
