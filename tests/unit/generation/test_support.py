from __future__ import annotations

import numpy as np
import pytest
from mindspore import nn

from llmstack.generation.rules import ALL_TOKENS, SamplingRules
from llmstack.generation.support import MinP, TopK, TopP, support
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
    "limits",
    [{"top_k": k} for k in (1, 5, 23, 99)]
    + [{"top_p": p} for p in (0.05, 0.7, 0.999)]
    + [{"min_p": p} for p in (0.01, 0.3, 0.99)]
    + [{"top_k": 7, "top_p": 0.8}, {"top_k": 9, "top_p": 0.95, "min_p": 0.2}],
    ids=str,
)
def test_support_is_the_oracles(limits):
    weights = run(support(SamplingRules(**limits)), PROBS)
    expected = np.stack([kept_tokens(row, **limits) for row in LOGITS])
    np.testing.assert_array_equal(weights > 0, expected)
    np.testing.assert_array_equal(weights[expected], PROBS[expected])


def test_by_hand():
    probs = np.array([[0.1, 0.4, 0.2, 0.3]], np.float32)
    assert (run(TopK(2), probs) > 0).tolist() == [[False, True, False, True]]
    # 0.4 alone is less than 0.6, 0.4 + 0.3 is not
    assert (run(TopP(0.6), probs) > 0).tolist() == [[False, True, False, True]]
    # of the two best, 0.4 is 4/7 of the weight
    assert (run(support(SamplingRules(top_k=2, top_p=0.5)), probs) > 0).tolist() == [[False, True, False, False]]
    # half of the best is 0.2
    assert (run(MinP(0.5), probs) > 0).tolist() == [[False, True, True, True]]
    assert (run(MinP(1.0), probs) > 0).tolist() == [[False, True, False, False]]


def test_nothing_is_built_when_all_tokens_may_be_drawn():
    assert support(ALL_TOKENS) is None
    assert support(SamplingRules(repetition_penalty=2.0)) is None
    assert isinstance(support(SamplingRules(top_k=1)), nn.Cell)
