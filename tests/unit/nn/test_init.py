from __future__ import annotations

import numpy as np
import pytest

from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel
from llmstack.models.weights import export_arrays
from llmstack.nn.init import initial_array, initial_std
from tests.helpers.models import tiny_config

CONFIG = tiny_config(num_hidden_layers=8, initializer_range=0.02, hidden_size=20)


@pytest.mark.parametrize(
    ("name", "std"),
    [
        ("trunk.embedding", 0.02),
        ("trunk.blocks.3.attention.qkv.weight", 0.02),
        ("trunk.blocks.3.mlp.gate_up.weight", 0.02),
        ("head.weight", 0.02),
        # residual outputs: 0.02 / sqrt(2 * 8) = 0.02 / 4
        ("trunk.blocks.3.attention.out.weight", 0.005),
        ("trunk.blocks.0.mlp.down.weight", 0.005),
        # a scalar head: 1 / (D + 1)
        ("score.weight", 1 / 21),
    ],
)
def test_standard_deviations(name, std):
    assert initial_std(name, CONFIG) == std


def test_draws_have_that_deviation_and_no_mean():
    array = initial_array("trunk.blocks.1.mlp.down.weight", (200, 300), config=CONFIG, seed=5)
    assert array.dtype == np.float32
    # 60,000 draws: five standard errors of the mean and of the deviation
    assert abs(array.mean()) < 5 * 0.005 / np.sqrt(array.size)
    assert abs(array.std() - 0.005) < 5 * 0.005 / np.sqrt(2 * array.size)


def test_biases_start_at_zero():
    name = "trunk.blocks.0.attention.qkv.bias"
    np.testing.assert_array_equal(initial_array(name, (4,), config=CONFIG, seed=5), np.zeros(4))


def test_norms_start_at_one():
    np.testing.assert_array_equal(initial_array("trunk.norm.weight", (4,), config=CONFIG, seed=5), np.ones(4))


def test_seed_and_name_alone_decide():
    config = tiny_config()
    first, again, other = (export_arrays(CausalLM(config, seed=seed)) for seed in (1, 1, 2))
    scalar = export_arrays(ScalarModel(config, seed=1))
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
        if array.ndim > 1:
            assert not np.array_equal(array, other[name])
        if name in scalar:
            np.testing.assert_array_equal(array, scalar[name])
    assert not np.array_equal(first["trunk.blocks.0.mlp.down.weight"], first["trunk.blocks.1.mlp.down.weight"])
