from __future__ import annotations

import numpy as np
import pytest

from llmstack.nn import composed
from tests.helpers import kernel_checks as checks
from tests.helpers.cells import eager, run
from tests.reference import rope as rope_oracle
from tests.reference.attention import allowed
from tests.tolerances import EXACT, F32_ATOL


@pytest.fixture
def eagerly():
    with eager():
        yield


def test_mask_is_zero_on_visible_keys_and_finite_elsewhere(eagerly):
    segments = np.array([[0, 1, 1, 2], [1, 1, 0, 0]], np.int32)
    mask = run(composed.ComposedMask(), segments)
    assert mask.shape == (2, 1, 4, 4)
    np.testing.assert_array_equal(mask[:, 0] == 0.0, allowed(segments))
    np.testing.assert_array_equal(mask[:, 0] == np.float32(composed.HIDDEN_SCORE), ~allowed(segments))


def test_rotated_heads_by_hand(eagerly):
    # one token, one query head and one key/value head of width 2, turned by a quarter: (a, b) -> (-b, a)
    qkv = np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], np.float32)
    heads = _Heads(composed.RotatedHeads(1, 1, 2))
    query, key, value = run(heads, qkv, np.array([[0.0]], np.float32), np.array([[1.0]], np.float32))
    np.testing.assert_allclose(query.reshape(-1), [-2.0, 1.0], rtol=0, atol=EXACT)
    np.testing.assert_allclose(key.reshape(-1), [-4.0, 3.0], rtol=0, atol=EXACT)
    np.testing.assert_allclose(value.reshape(-1), [5.0, 6.0], rtol=0, atol=EXACT)


def test_rotated_heads_match_the_oracle(eagerly):
    case = checks.ATTENTION_CASES["packed_grouped"]
    qkv, cos, sin, _, positions, _ = checks.attention_inputs(case)
    query, key, value = run(_Heads(composed.RotatedHeads(4, 2, 4), num_rows=2), qkv, cos, sin)
    q, k, v = np.split(qkv.reshape(2, 5, 8, 4), [4, 6], axis=2)
    for ours, theirs in (
        (query, rope_oracle.rotate(q, positions, checks.THETA)),
        (key, rope_oracle.rotate(k, positions, checks.THETA)),
        (value, v),
    ):
        np.testing.assert_allclose(ours.transpose(0, 2, 1, 3), theirs, rtol=0, atol=F32_ATOL)


@pytest.mark.parametrize("case", checks.ATTENTION_CASES)
def test_attention(case):
    _, _, _, num_heads, num_kv_heads, head_dim = checks.ATTENTION_CASES[case]
    cell = composed.ComposedAttention(num_heads, num_kv_heads, head_dim)
    checks.check_attention(composed.ComposedMask(), cell, checks.ATTENTION_CASES[case])


@pytest.mark.parametrize("name", checks.WINDOW_CASES)
def test_attention_in_a_window(name):
    case, window = checks.WINDOW_CASES[name]
    checks.check_attention(composed.ComposedMask(window), composed.ComposedAttention(*case[3:]), case, window=window)


def test_attention_by_hand():
    checks.check_attention_by_hand(composed.ComposedMask(), composed.ComposedAttention(1, 1, 2))


def test_linear(eagerly):
    checks.check_linear(composed.ComposedLinear(), 5, 7, 3)


@pytest.mark.parametrize("shape", checks.NORM_CASES)
def test_rms_norm(shape, eagerly):
    checks.check_rms_norm(composed.ComposedRmsNorm(1e-5), 1e-5, shape)


@pytest.mark.parametrize("shape", checks.SWIGLU_CASES)
def test_swiglu(shape, eagerly):
    checks.check_swiglu(composed.ComposedSwiGlu(), shape)


@pytest.mark.parametrize("case", checks.NLL_CASES)
def test_token_nll(case, eagerly):
    checks.check_token_nll(composed.ComposedTokenNll(), *case)


class _Heads(composed.nn.Cell):
    """RotatedHeads with its number of rows fixed, so that every input is an array."""

    def __init__(self, cell, num_rows=1):
        super().__init__()
        self.cell = cell
        self.num_rows = num_rows

    def construct(self, qkv, cos, sin):
        return self.cell(qkv, cos, sin, self.num_rows)
