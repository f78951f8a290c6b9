from __future__ import annotations

import numpy as np

from llmstack.nn.decoder import Decoder
from llmstack.nn.init import initialise
from tests.helpers.cells import run
from tests.helpers.models import oracle_shape, oracle_weights, rows, tiny_config, vary_norms
from tests.reference.decoder import hidden_states
from tests.tolerances import F32_ATOL


class _Model:
    """Gives a bare trunk the shape that ``oracle_weights`` reads."""

    def __init__(self, trunk, config):
        self.trunk, self.config = trunk, config

    def parameters_and_names(self):
        return ((f"trunk.{name}", parameter) for name, parameter in self.trunk.parameters_and_names())


def test_matches_the_oracle_on_packed_and_padded_rows():
    config = tiny_config()
    trunk = Decoder(config)
    initialise(trunk, config, seed=0)
    vary_norms(trunk)
    batch = rows(((3, 4), (5,)), 9, pad_left=1)
    out = run(trunk, *batch)
    assert out.shape == (2, 9, config.hidden_size)
    expected = hidden_states(oracle_weights(_Model(trunk, config)), oracle_shape(config), *batch)
    np.testing.assert_allclose(out, expected, rtol=0, atol=F32_ATOL)


def test_parameter_names():
    names = [name for name, _ in Decoder(tiny_config(num_hidden_layers=1)).parameters_and_names()]
    assert names == [
        "embedding",
        "blocks.0.attention_norm.weight",
        "blocks.0.attention.qkv.weight",
        "blocks.0.attention.out.weight",
        "blocks.0.mlp_norm.weight",
        "blocks.0.mlp.gate_up.weight",
        "blocks.0.mlp.down.weight",
        "norm.weight",
    ]
