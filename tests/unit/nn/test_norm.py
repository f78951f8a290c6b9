from __future__ import annotations

import numpy as np

from llmstack.nn.norm import RMSNorm
from tests.helpers.cells import run
from tests.reference.norm import rms_norm
from tests.tolerances import F32_ATOL


def test_by_hand():
    # mean square of (3, 4) is 12.5; with eps 12.5 the root is 5
    assert run(RMSNorm(2, 12.5), np.array([[3.0, 4.0]])).tolist() == [[np.float32(0.6), np.float32(0.8)]]


def test_uses_its_weight():
    norm = RMSNorm(5, 1e-6)
    weight = np.arange(1, 6, dtype=np.float32)
    norm.weight.set_data(type(norm.weight)(weight))
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    np.testing.assert_allclose(run(norm, x), rms_norm(x, weight, 1e-6), rtol=0, atol=F32_ATOL)


def test_a_zero_row_stays_zero():
    np.testing.assert_array_equal(run(RMSNorm(3, 1e-6), np.zeros((2, 3))), np.zeros((2, 3)))
