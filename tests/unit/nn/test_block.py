from __future__ import annotations

import numpy as np

from llmstack.nn import kernels
from llmstack.nn.block import DecoderBlock
from llmstack.nn.init import initialise
from llmstack.nn.rotary import RotaryEmbedding
from tests.helpers.cells import run
from tests.helpers.models import rows, tiny_config
from tests.tolerances import EXACT


def _run(block, config, hidden):
    _, positions, segments = rows(((4,),), 4)
    cos, sin = run(RotaryEmbedding(config.head_dim, 8, config.rope_theta), positions)
    return run(block, hidden, cos, sin, run(kernels.attention_mask(), segments))


def test_with_zero_output_projections_it_is_the_identity():
    config = tiny_config()
    block = DecoderBlock(config)
    hidden = np.random.default_rng(0).normal(size=(4, config.hidden_size)).astype(np.float32)
    np.testing.assert_allclose(_run(block, config, hidden), hidden, rtol=0, atol=EXACT)


def test_both_branches_are_added_to_the_stream():
    config = tiny_config()
    hidden = np.random.default_rng(0).normal(size=(4, config.hidden_size)).astype(np.float32)
    block = DecoderBlock(config)
    initialise(block, config, seed=0)
    whole = _run(block, config, hidden)
    mlp_out = block.mlp.down.weight.asnumpy().copy()
    block.mlp.down.weight.set_data(type(block.mlp.down.weight)(np.zeros_like(mlp_out)))
    attention_only = _run(block, config, hidden)
    assert not np.allclose(attention_only, hidden)
    assert not np.allclose(whole, attention_only)
