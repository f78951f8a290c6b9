from __future__ import annotations

import numpy as np

from llmstack.models.scalar_model import ScalarModel
from tests.helpers.cells import run
from tests.helpers.models import oracle_shape, oracle_weights, rows, tiny_config, vary_norms
from tests.reference.decoder import scores
from tests.tolerances import F32_ATOL


def test_scores_match_the_oracle():
    config = tiny_config()
    model = ScalarModel(config, seed=3)
    vary_norms(model)
    batch = rows(((3, 4), (5,)), 9, pad_left=1)
    out = run(model, *batch)
    assert out.shape == (2, 9)
    expected = scores(oracle_weights(model), oracle_shape(config), *batch)
    np.testing.assert_allclose(out, expected, rtol=0, atol=F32_ATOL)


def test_scores_start_near_zero_but_not_alike():
    # the final norm makes hidden values of order 1, so scores are of order sqrt(D) / (D + 1)
    config = tiny_config(hidden_size=100)
    out = run(ScalarModel(config), *rows(((16,),), 16))
    assert np.abs(out).max() < 0.5
    assert np.std(out) > 0.01


def test_parameter_names():
    named = dict(ScalarModel(tiny_config(num_hidden_layers=1)).parameters_and_names())
    assert list(named)[0] == "trunk.embedding" and list(named)[-1] == "score.weight"
    assert named["score.weight"].shape == (1, 20)
