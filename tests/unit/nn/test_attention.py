from __future__ import annotations

import numpy as np
from mindspore import Tensor

from llmstack.nn import kernels
from llmstack.nn.attention import GroupedQueryAttention, HeadNorms
from tests.helpers import kernel_checks as checks
from tests.helpers.cells import run
from tests.helpers.models import tiny_config
from tests.reference.norm import rms_norm
from tests.tolerances import F32_ATOL


def test_projects_attends_and_projects_back():
    case = checks.ATTENTION_CASES["packed_grouped"]
    _, cos, sin, segments, positions, _ = checks.attention_inputs(case)
    rng = np.random.default_rng(0)
    cell = GroupedQueryAttention(tiny_config(hidden_size=10, head_dim=4))
    assert cell.qkv.weight.shape == (32, 10) and cell.out.weight.shape == (10, 16)
    qkv_weight, out_weight = rng.normal(size=(32, 10)) * 0.5, rng.normal(size=(10, 16)) * 0.5
    cell.qkv.weight.set_data(Tensor(qkv_weight.astype(np.float32)))
    cell.out.weight.set_data(Tensor(out_weight.astype(np.float32)))
    hidden = rng.normal(size=(positions.size, 10))
    mask = run(kernels.attention_mask(), segments)
    out = run(cell, hidden, cos, sin, mask)
    merged = checks.attention_oracle_of(case, hidden @ qkv_weight.T, positions, segments)
    np.testing.assert_allclose(out, merged @ out_weight.T, rtol=0, atol=F32_ATOL)


def test_heads_are_normalised_each_by_itself_and_values_are_not():
    config = tiny_config(qk_norm=True, head_dim=4)
    cell = HeadNorms(config)
    rng = np.random.default_rng(1)
    query_weight, key_weight = rng.normal(1.0, 0.3, 4), rng.normal(1.0, 0.3, 4)
    cell.query.weight.set_data(Tensor(query_weight.astype(np.float32)))
    cell.key.weight.set_data(Tensor(key_weight.astype(np.float32)))
    qkv = rng.normal(size=(3, 8, 4))
    expected = qkv.copy()
    expected[:, :4] = rms_norm(qkv[:, :4], query_weight, config.rms_norm_eps)
    expected[:, 4:6] = rms_norm(qkv[:, 4:6], key_weight, config.rms_norm_eps)
    out = run(cell, qkv.reshape(3, 32))
    np.testing.assert_allclose(out, expected.reshape(3, 32), rtol=0, atol=F32_ATOL)
