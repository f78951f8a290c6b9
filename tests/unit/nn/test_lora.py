from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor

from llmstack.config.lora import LoraConfig
from llmstack.nn.linear import Linear
from llmstack.nn.lora import LoraLinear, Projection
from tests.helpers.cells import Differentiated
from tests.tolerances import F32_ATOL, F32_RTOL, GRADIENT_ATOL

PROJECTIONS = (Projection("q_proj", 4, True), Projection("k_proj", 2, False), Projection("v_proj", 3, True))


def adapted(*, dora=False, bias=True, projections=PROJECTIONS, seed=0):
    rng = np.random.default_rng(seed)
    base = Linear(5, sum(p.rows for p in projections), bias=bias)
    config = LoraConfig(rank=2, alpha=6.0, dropout=0.0, target_modules=("q_proj",), dora=dora)
    cell = LoraLinear(base, projections, config, seed=seed)
    for name, parameter in cell.parameters_and_names():
        if not name.endswith(".b"):
            parameter.set_data(Tensor(rng.normal(size=parameter.shape).astype(np.float32)))
    return cell


def values(cell):
    return {name: parameter.asnumpy().astype(np.float64) for name, parameter in cell.parameters_and_names()}


def formula(cell, x, *, dora):
    """``x W'^T + b`` with ``W' = W + 3 B A``, its rows at the length m where they have one."""
    v = values(cell)
    weight, first, number = v["weight"].copy(), 0, 0
    for projection in cell.projections:
        rows = slice(first, first + projection.rows)
        if projection.adapted:
            weight[rows] += 3.0 * v[f"updates.{number}.b"] @ v[f"updates.{number}.a"]
            if dora:
                length = np.linalg.norm(weight[rows], axis=1)
                weight[rows] *= (v[f"updates.{number}.magnitude"] / length)[:, None]
            number += 1
        first += projection.rows
    return x @ weight.T + v.get("bias", 0.0)


@pytest.mark.parametrize("bias", [True, False])
def test_b_starts_at_0_so_nothing_changes(bias):
    cell = adapted(bias=bias)
    x = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float32)
    (out,), _, _ = Differentiated(cell, 1)((x,), (np.ones((7, 9), np.float32),))
    v = values(cell)
    np.testing.assert_allclose(out, x @ v["weight"].T + v.get("bias", 0.0), rtol=0, atol=F32_ATOL)
    assert not v["updates.0.b"].any() and np.abs(v["updates.0.a"]).max() > 0


def test_values_and_gradients_equal_the_formula():
    cell = adapted()
    rng = np.random.default_rng(2)
    for update in cell.updates:
        update.b.set_data(Tensor(rng.normal(size=update.b.shape).astype(np.float32)))
    x, upstream = rng.normal(size=(7, 5)).astype(np.float32), rng.normal(size=(7, 9)).astype(np.float32)
    (out,), (dx,), gradients = Differentiated(cell, 1)((x,), (upstream,))
    np.testing.assert_allclose(out, formula(cell, x, dora=False), rtol=0, atol=F32_ATOL)
    v = values(cell)
    merged = v["weight"].copy()
    merged[:4] += 3.0 * v["updates.0.b"] @ v["updates.0.a"]
    merged[6:] += 3.0 * v["updates.1.b"] @ v["updates.1.a"]
    np.testing.assert_allclose(dx, upstream @ merged, rtol=F32_RTOL, atol=GRADIENT_ATOL)
    of_q = upstream[:, :4].astype(np.float64)
    np.testing.assert_allclose(
        gradients["updates.0.a"], 3.0 * v["updates.0.b"].T @ of_q.T @ x, rtol=F32_RTOL, atol=GRADIENT_ATOL
    )
    np.testing.assert_allclose(
        gradients["updates.0.b"], 3.0 * of_q.T @ x @ v["updates.0.a"].T, rtol=F32_RTOL, atol=GRADIENT_ATOL
    )


@pytest.mark.parametrize("projections", [PROJECTIONS, (Projection("o_proj", 4, True),)], ids=["fused", "alone"])
def test_rows_of_their_own_length(projections):
    cell = adapted(dora=True, projections=projections)
    rng = np.random.default_rng(3)
    for update in cell.updates:
        update.b.set_data(Tensor(rng.normal(size=update.b.shape).astype(np.float32)))
    x = rng.normal(size=(7, 5)).astype(np.float32)
    upstream = rng.normal(size=(7, sum(p.rows for p in projections))).astype(np.float32)
    (out,), _, gradients = Differentiated(cell, 1)((x,), (upstream,))
    np.testing.assert_allclose(out, formula(cell, x, dora=True), rtol=0, atol=F32_ATOL)
    # d/dm of m (x . w / |w|), |w| a constant
    v = values(cell)
    rows = projections[0].rows
    direction = v["weight"][:rows] + 3.0 * v["updates.0.b"] @ v["updates.0.a"]
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    expected = (upstream[:, :rows] * (x @ direction.T)).sum(0)
    np.testing.assert_allclose(gradients["updates.0.magnitude"], expected, rtol=F32_RTOL, atol=GRADIENT_ATOL)
