from __future__ import annotations

import numpy as np
import pytest

from llmstack.models.causal_lm import CausalLM
from tests.helpers.cells import run
from tests.helpers.models import oracle_shape, oracle_weights, rows, tiny_config, vary_norms
from tests.reference.decoder import logits
from tests.tolerances import F32_ATOL


@pytest.mark.parametrize("tied", [False, True])
def test_logits_match_the_oracle(tied):
    config = tiny_config(tie_word_embeddings=tied)
    model = CausalLM(config, seed=3)
    vary_norms(model)
    batch = rows(((3, 4), (5,)), 9, pad_left=1)
    out = run(model, *batch)
    assert out.shape == (2, 9, config.vocab_size)
    expected = logits(oracle_weights(model), oracle_shape(config), *batch)
    np.testing.assert_allclose(out, expected, rtol=0, atol=F32_ATOL)


@pytest.mark.parametrize("tied", [False, True])
def test_parameter_names_are_structural_and_a_tied_matrix_is_one(tied):
    model = CausalLM(tiny_config(tie_word_embeddings=tied))
    named = dict(model.parameters_and_names())
    assert [parameter.name for parameter in named.values()] == list(named)
    assert ("head.weight" in named) is not tied
    assert (model.head.weight is model.trunk.embedding) is tied
