from __future__ import annotations

import numpy as np

from llmstack.nn.rotary import RotaryEmbedding
from tests.helpers.cells import run
from tests.tolerances import F32_ATOL


def test_by_hand():
    # width 4, theta 100: frequencies 1 and 1/10
    cos, sin = run(RotaryEmbedding(4, 8, 100.0), np.array([[0, 3]], np.int32))
    np.testing.assert_allclose(cos, [[1, 1], [np.cos(3), np.cos(0.3)]], rtol=0, atol=F32_ATOL)
    np.testing.assert_allclose(sin, [[0, 0], [np.sin(3), np.sin(0.3)]], rtol=0, atol=F32_ATOL)


def test_a_far_position_loses_no_digits():
    last = 100_000
    cos, sin = run(RotaryEmbedding(2, last + 1, 10000.0), np.array([last], np.int32))
    np.testing.assert_allclose(cos[0, 0], np.cos(np.float64(last)), rtol=0, atol=F32_ATOL)
    np.testing.assert_allclose(sin[0, 0], np.sin(np.float64(last)), rtol=0, atol=F32_ATOL)


def test_positions_are_looked_up_not_counted():
    rotary = RotaryEmbedding(6, 16, 10000.0)
    in_order, _ = run(rotary, np.arange(4, dtype=np.int32))
    shuffled, _ = run(rotary, np.array([2, 0, 3, 2], np.int32))
    np.testing.assert_array_equal(shuffled, in_order[[2, 0, 3, 2]])
