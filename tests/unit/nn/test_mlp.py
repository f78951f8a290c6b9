from __future__ import annotations

import numpy as np

from llmstack.nn.mlp import SwiGLU
from tests.helpers.cells import run
from tests.reference.mlp import swiglu
from tests.tolerances import F32_ATOL, F32_RTOL


def _set(parameter, values):
    parameter.set_data(type(parameter)(np.asarray(values, np.float32)))


def test_by_hand():
    # D = F = 1: down * silu(gate x) * (up x) with x = 1, gate = ln 3 (sigmoid 3/4), up = 2, down = 10
    cell = SwiGLU(1, 1)
    _set(cell.gate_up.weight, [[np.log(3.0)], [2.0]])
    _set(cell.down.weight, [[10.0]])
    expected = 10 * np.log(3.0) * 0.75 * 2
    np.testing.assert_allclose(run(cell, np.ones((1, 1))), [[expected]], rtol=F32_RTOL, atol=0)


def test_matches_the_oracle_with_gate_rows_first():
    rng = np.random.default_rng(0)
    gate, up, down = rng.normal(size=(7, 5)), rng.normal(size=(7, 5)), rng.normal(size=(5, 7))
    cell = SwiGLU(5, 7)
    _set(cell.gate_up.weight, np.concatenate([gate, up]))
    _set(cell.down.weight, down)
    x = rng.normal(size=(3, 5))
    args = (np.float32(a) for a in (x, gate, up, down))
    np.testing.assert_allclose(run(cell, x), swiglu(*args), rtol=0, atol=F32_ATOL)
