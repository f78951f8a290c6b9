from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from llmstack.rl.whiten import masked_mean, masked_var, whiten
from tests.reference import whiten as reference
from tests.tolerances import F32_ATOL, F64_ATOL

VALUES = st.floats(-100, 100, width=32)


@st.composite
def batches(draw):
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=6))
    return draw(hnp.arrays(np.float64, shape, elements=VALUES)), draw(
        hnp.arrays(np.int8, shape, elements=st.integers(0, 1))
    )


@given(batches(), st.booleans())
def test_equals_the_oracle(batch, shift_mean):
    x, mask = batch
    expected = reference.whiten(x, mask, shift_mean=shift_mean)
    np.testing.assert_allclose(whiten(x, mask, shift_mean=shift_mean), expected, atol=F32_ATOL, rtol=F32_ATOL)


def test_by_hand():
    # real entries 1, 3: mean 2, variance 1; the 100 is a pad
    x, mask = np.array([[1.0, 100.0, 3.0]]), np.array([[1, 0, 1]])
    assert masked_mean(x, mask) == 2.0
    assert masked_var(x, mask) == 1.0
    np.testing.assert_allclose(whiten(x, mask), [[-1.0, 0.0, 1.0]], atol=F32_ATOL)
    np.testing.assert_allclose(whiten(x, mask, shift_mean=False), [[1.0, 0.0, 3.0]], atol=F32_ATOL)


@given(batches(), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_extra_padding_and_order_of_rows_change_nothing(batch, num_pads, seed):
    x, mask = batch
    padded_x = np.pad(x, ((0, 0), (num_pads, num_pads)), constant_values=np.nan)
    padded_mask = np.pad(mask, ((0, 0), (num_pads, num_pads)))
    expected = whiten(x, mask)
    np.testing.assert_allclose(whiten(padded_x, padded_mask)[:, num_pads:-num_pads], expected, atol=F32_ATOL)
    order = np.random.default_rng(seed).permutation(len(x))
    np.testing.assert_allclose(whiten(x[order], mask[order]), expected[order], atol=F32_ATOL)


def test_result_has_mean_0_and_variance_1_and_forgets_shift_and_scale():
    rng = np.random.default_rng(0)
    x, mask = rng.normal(3.0, 5.0, (8, 16)), rng.integers(0, 2, (8, 16))
    white = whiten(x, mask)
    assert abs(masked_mean(white, mask)) < F32_ATOL
    assert abs(masked_var(white, mask) - 1.0) < F32_ATOL
    np.testing.assert_allclose(whiten(7.0 * x - 2.0, mask), white, atol=F32_ATOL)


@pytest.mark.parametrize("num_real", [0, 1])
def test_too_few_entries_stay_finite(num_real):
    x, mask = np.array([[5.0, np.nan]]), np.array([[num_real, 0]])
    np.testing.assert_array_equal(whiten(x, mask), [[5.0 * num_real, 0.0]])
    assert masked_mean(x, mask) == 5.0 * num_real
    assert masked_var(x, mask) == 0.0


def test_constant_entries_become_zero():
    np.testing.assert_allclose(whiten(np.full((3, 4), 0.1), np.ones((3, 4))), 0.0, atol=F64_ATOL)
