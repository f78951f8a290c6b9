from __future__ import annotations

import numpy as np
import pytest
from mindspore import nn

from llmstack.generation.support import TopK, TopP, support
from tests.helpers.cells import run
from tests.reference.logprob import log_softmax
from tests.reference.sampling import kept_tokens

RNG = np.random.default_rng(3)
LOGITS = np.concatenate(
    [
        2.0 * RNG.normal(size=(6, 23)),
        np.round(2.0 * RNG.normal(size=(6, 23))),  # many ties
        np.where(np.arange(23) == 4, 30.0, 0.0)[None],  # all but certain
        np.zeros((1, 23)),  # all equal
    ]
).astype(np.float32)
PROBS = np.exp(np.stack([log_softmax(row) for row in LOGITS])).astype(np.float32)


@pytest.mark.parametrize(
    ("top_k", "top_p"), [(1, 1.0), (5, 1.0), (23, 1.0), (99, 1.0), (0, 0.05), (0, 0.7), (0, 0.999), (7, 0.8)]
)
def test_support_is_the_oracles(top_k, top_p):
    weights = run(support(top_k, top_p), PROBS)
    expected = np.stack([kept_tokens(row, top_k=top_k, top_p=top_p) for row in LOGITS])
    np.testing.assert_array_equal(weights > 0, expected)
    np.testing.assert_array_equal(weights[expected], PROBS[expected])


def test_by_hand():
    probs = np.array([[0.1, 0.4, 0.2, 0.3]], np.float32)
    assert (run(TopK(2), probs) > 0).tolist() == [[False, True, False, True]]
    # 0.4 alone is less than 0.6, 0.4 + 0.3 is not
    assert (run(TopP(0.6), probs) > 0).tolist() == [[False, True, False, True]]
    # of the two best, 0.4 is 4/7 of the weight
    assert (run(support(2, 0.5), probs) > 0).tolist() == [[False, True, False, False]]


def test_nothing_is_built_when_all_tokens_may_be_drawn():
    assert support(0, 1.0) is None
    assert isinstance(support(1, 1.0), nn.Cell)
