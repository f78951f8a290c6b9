from __future__ import annotations

import numpy as np
from mindspore import Tensor

from llmstack.nn import kernels
from llmstack.nn.attention import GroupedQueryAttention
from tests.helpers import kernel_checks as checks
from tests.helpers.cells import run
from tests.tolerances import F32_ATOL


def test_projects_attends_and_projects_back():
    case = checks.ATTENTION_CASES["packed_grouped"]
    _, cos, sin, segments, positions, _ = checks.attention_inputs(case)
    rng = np.random.default_rng(0)
    cell = GroupedQueryAttention(10, 4, num_kv_heads=2, head_dim=4)
    assert cell.qkv.shape == (32, 10) and cell.out.shape == (10, 16)
    qkv_weight, out_weight = rng.normal(size=(32, 10)) * 0.5, rng.normal(size=(10, 16)) * 0.5
    cell.qkv.set_data(Tensor(qkv_weight.astype(np.float32)))
    cell.out.set_data(Tensor(out_weight.astype(np.float32)))
    hidden = rng.normal(size=(positions.size, 10))
    mask = run(kernels.attention_mask(), segments)
    out = run(cell, hidden, cos, sin, mask)
    merged = checks.attention_oracle_of(case, hidden @ qkv_weight.T, positions, segments)
    np.testing.assert_allclose(out, merged @ out_weight.T, rtol=0, atol=F32_ATOL)
