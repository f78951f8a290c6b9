from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from llmstack.nn.decoder import Decoder, Trunk
from llmstack.nn.init import initialise
from tests.helpers.cells import run
from tests.helpers.models import oracle_shape, oracle_weights, rows, tiny_config, vary_norms
from tests.reference.decoder import hidden_states
from tests.tolerances import F32_ATOL, F32_RTOL


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


class _Chosen(nn.Cell):
    """Hidden states of some positions, in one of the two ways."""

    def __init__(self, trunk, early):
        super().__init__(auto_prefix=False)
        self.trunk, self.early = trunk, early

    def construct(self, tokens, positions, segments, targets, weight):
        if self.early:
            hidden = self.trunk.at(tokens, positions, segments, targets)
        else:
            hidden = Trunk.at(self.trunk, tokens, positions, segments, targets)
        return ops.reduce_sum(hidden * weight), hidden


@pytest.mark.parametrize("layers", [1, 2])
def test_some_positions_are_those_of_all_and_so_are_their_gradients(layers):
    config = tiny_config(num_hidden_layers=layers)
    trunk = Decoder(config)
    initialise(trunk, config, seed=0)
    vary_norms(trunk)
    targets = np.array([3, 0, 11, 3], np.int32)  # in any order, one twice
    weight = np.random.default_rng(0).normal(size=(4, config.hidden_size)).astype(np.float32)
    inputs = [Tensor(array) for array in (*rows(((3, 4), (5,)), 9, pad_left=1), targets, weight)]
    found = []
    for early in (True, False):
        step = ops.value_and_grad(_Chosen(trunk, early), None, trunk.trainable_params(), has_aux=True)
        (_, hidden), gradients = step(*inputs)
        found.append([hidden.asnumpy(), *(gradient.asnumpy() for gradient in gradients)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=F32_RTOL, atol=F32_ATOL)


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
