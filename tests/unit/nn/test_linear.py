from __future__ import annotations

import numpy as np

from llmstack.nn.linear import Linear
from tests.helpers.cells import Differentiated
from tests.tolerances import F32_ATOL, GRADIENT_ATOL


def test_values_and_gradients_with_a_bias():
    rng = np.random.default_rng(0)
    cell = Linear(3, 4, bias=True)
    weight, bias = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    cell.weight.set_data(type(cell.weight)(weight))
    cell.bias.set_data(type(cell.bias)(bias))
    x, upstream = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(5, 4)).astype(np.float32)
    (out,), (dx,), gradients = Differentiated(cell, 1)((x,), (upstream,))
    np.testing.assert_allclose(out, x @ weight.T + bias, rtol=0, atol=F32_ATOL)
    np.testing.assert_allclose(dx, upstream @ weight, rtol=0, atol=GRADIENT_ATOL)
    np.testing.assert_allclose(gradients["weight"], upstream.T @ x, rtol=0, atol=GRADIENT_ATOL)
    np.testing.assert_allclose(gradients["bias"], upstream.sum(0), rtol=0, atol=GRADIENT_ATOL)


def test_without_a_bias_there_is_one_parameter():
    assert [name for name, _ in Linear(3, 4).parameters_and_names()] == ["weight"]
