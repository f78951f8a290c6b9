from __future__ import annotations

import numpy as np
import pytest

from llmstack.losses.logprob import TokenLogProbs
from tests.helpers.cells import Differentiated, run
from tests.reference.logprob import entropy, entropy_gradient, token_logprobs, token_logprobs_gradient
from tests.tolerances import F32_ATOL, F32_RTOL, GRADIENT_ATOL


def test_by_hand():
    # at temperature 2 the logits 2 ln 1, 2 ln 3 are probabilities 1/4 and 3/4
    logits = 2 * np.log(np.array([[1.0, 3.0]]))
    logp, entropies = run(TokenLogProbs(), logits, [1], 2.0)
    np.testing.assert_allclose(logp, [np.log(0.75)], rtol=F32_RTOL, atol=0)
    np.testing.assert_allclose(entropies, [-0.25 * np.log(0.25) - 0.75 * np.log(0.75)], rtol=F32_RTOL, atol=0)


@pytest.fixture(scope="module")
def log_probs():
    return Differentiated(TokenLogProbs(), 3)


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_matches_the_oracle(temperature, log_probs):
    rng = np.random.default_rng(0)
    logits = rng.normal(0.0, 2.0, (9, 21)).astype(np.float32)
    labels = rng.integers(0, 21, 9).astype(np.int32)
    dlogp, dentropy = rng.normal(size=(2, 9)).astype(np.float32)
    (logp, entropies), (gradient,), _ = log_probs((logits, labels, temperature), (dlogp, dentropy))
    np.testing.assert_allclose(logp, token_logprobs(logits, labels, temperature), rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose(entropies, entropy(logits, temperature), rtol=F32_RTOL, atol=F32_ATOL)
    expected = token_logprobs_gradient(logits, labels, dlogp, temperature)
    expected += entropy_gradient(logits, dentropy, temperature)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=GRADIENT_ATOL)
