"""The compiled kernels against the oracles, values and gradients."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from mindspore import nn

from llmstack.nn.native import ops as native
from llmstack.nn.native.build import library
from tests.helpers import kernel_checks as checks
from tests.helpers.cells import run
from tests.tolerances import EXACT, F32_ATOL, F32_RTOL

pytestmark = pytest.mark.skipif(library() is None, reason="no C++ compiler on this machine")


CASES = {**checks.ATTENTION_CASES, **checks.LONG_ATTENTION_CASES}


@pytest.mark.parametrize("case", CASES)
def test_attention(case):
    _, _, _, num_heads, num_kv_heads, head_dim = CASES[case]
    checks.check_attention(nn.Identity(), native.NativeAttention(num_heads, num_kv_heads, head_dim), CASES[case])


@pytest.mark.parametrize("name", {**checks.WINDOW_CASES, **checks.LONG_WINDOW_CASES})
def test_attention_in_a_window(name):
    case, window = {**checks.WINDOW_CASES, **checks.LONG_WINDOW_CASES}[name]
    checks.check_attention(nn.Identity(), native.NativeAttention(*case[3:], window), case, window=window)


def test_attention_by_hand():
    checks.check_attention_by_hand(nn.Identity(), native.NativeAttention(1, 1, 2))


def test_attention_gives_pads_finite_values_and_no_token_their_content():
    lengths, num_tokens, pad_left, num_heads, num_kv_heads, head_dim = (((4,),), 9, 3, 2, 1, 4)
    case = (lengths, num_tokens, pad_left, num_heads, num_kv_heads, head_dim)
    qkv, cos, sin, segments, _, _ = checks.attention_inputs(case)
    cell = native.NativeAttention(num_heads, num_kv_heads, head_dim)
    real = segments.reshape(-1) > 0
    before = run(cell, qkv, cos, sin, segments)
    after = run(cell, np.where(real[:, None], qkv, 1e3).astype(np.float32), cos, sin, segments)
    assert np.isfinite(before).all() and np.isfinite(after).all()
    np.testing.assert_allclose(after[real], before[real], rtol=0, atol=EXACT)


@pytest.mark.parametrize("case", checks.LINEAR_CASES)
def test_linear(case):
    checks.check_linear(native.NativeLinear(), *case)


@pytest.mark.parametrize("shape", checks.NORM_CASES)
def test_rms_norm(shape):
    checks.check_rms_norm(native.NativeRmsNorm(1e-5), 1e-5, shape)


@pytest.mark.parametrize("shape", checks.SWIGLU_CASES)
def test_swiglu(shape):
    checks.check_swiglu(native.NativeSwiGlu(), shape)


@pytest.mark.parametrize("case", checks.NLL_CASES)
def test_token_nll(case):
    checks.check_token_nll(native.NativeTokenNll(), *case)


def test_token_nll_of_extreme_logits_is_finite():
    logits = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]], np.float32)
    nll, lse, entropy = run(native.NativeTokenNll(), logits, np.array([1, 2], np.int32), np.ones(1, np.float32))
    np.testing.assert_allclose(nll, [2e4, np.log(3)], rtol=F32_RTOL, atol=0)
    np.testing.assert_allclose(lse, [1e4, -1e4 + np.log(3)], rtol=F32_RTOL, atol=0)
    np.testing.assert_allclose(entropy, [0, np.log(3)], rtol=F32_RTOL, atol=F32_ATOL)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_poisoned_input_never_comes_out_finite(poison):
    # a training step with a non-finite number is skipped, so the number must be seen
    x = np.ones((2, 20), np.float32)
    x[1, 3] = poison
    ones = np.ones(20, np.float32)
    assert not np.isfinite(run(native.NativeRmsNorm(1e-5), x, ones)[1]).all()
    assert not np.isfinite(run(native.NativeSwiGlu(), x)[1]).all()
    nll, lse, _ = run(native.NativeTokenNll(), x, np.array([0, 0], np.int32), np.ones(1, np.float32))
    assert not np.isfinite(nll[1]) and not np.isfinite(lse[1])
    assert np.isfinite(nll[0])
    case = (((5,),), 5, 0, 1, 1, 4)
    qkv, cos, sin, segments, _, _ = checks.attention_inputs(case)
    qkv[2] = poison
    out = run(native.NativeAttention(1, 1, 4), qkv, cos, sin, segments)
    assert not np.isfinite(out[2:]).any()


def _call(name, inputs, shapes):
    """Call a kernel as MindSpore does, in this thread."""
    arrays = [np.ascontiguousarray(array) for array in inputs] + [np.empty(shape, np.float32) for shape in shapes]
    count = len(arrays)
    params = (ctypes.c_void_p * count)(*(array.ctypes.data for array in arrays))
    ndims = (ctypes.c_int * count)(*(array.ndim for array in arrays))
    dims = [(ctypes.c_int64 * array.ndim)(*array.shape) for array in arrays]
    pointers = (ctypes.POINTER(ctypes.c_int64) * count)(*(ctypes.cast(d, ctypes.POINTER(ctypes.c_int64)) for d in dims))
    assert getattr(ctypes.CDLL(library()), name)(count, params, ndims, pointers, None, None, None) == 0
    return arrays[len(inputs) :]


def test_results_do_not_depend_on_the_number_of_threads():
    qkv, cos, sin, segments, _, upstream = checks.attention_inputs(checks.LONG_ATTENTION_CASES["long_grouped"])
    heads = np.array([6, 2], np.int32)
    set_threads = ctypes.CDLL(library()).omp_set_num_threads
    rng, results = np.random.default_rng(0), []
    x, w, dy = rng.normal(size=(3, 200, 900)).astype(np.float32)
    for threads in (1, 3):
        set_threads(threads)
        out, lse = _call("attention", (qkv, cos, sin, segments, heads), (upstream.shape, (len(qkv), 6)))
        saved = (qkv, cos, sin, segments, heads, out, lse, upstream)
        (gradient,) = _call("attention_grad", saved, (qkv.shape,))
        norm = _call("rms_norm_grad", (qkv, qkv[0], np.float32([1e-5]), qkv), (qkv.shape, qkv[0].shape))
        dense = _call("dense", (x, w), ((200, 200),))
        dense += _call("dense_grad_input", (dy[:, :200].copy(), w), ((200, 900),))
        dense += _call("dense_grad_weight", (dy, x), ((900, 900),))
        results.append((out, gradient, *norm, *dense))
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)
