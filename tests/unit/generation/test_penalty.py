from __future__ import annotations

import numpy as np
import pytest
from mindspore import nn

from llmstack.generation.composed import ComposedSampler
from llmstack.generation.penalty import PenalisedSampler, SeenTokens
from llmstack.generation.support import TopK
from tests.helpers.cells import run
from tests.helpers.generation_checks import left_padded
from tests.reference.logprob import log_softmax
from tests.reference.sampling import inverse_cdf, penalised
from tests.tolerances import F32_ATOL, F32_RTOL

VOCAB, PENALTY, STEPS = 11, 1.6, 4
PROMPTS = ([3, 3, 7], [1], [0, 10, 5, 5, 2])


class _Draws(nn.Cell):
    """Reads the prompts, then draws a token from each of some logits."""

    def __init__(self, sampler, num_steps):
        super().__init__()
        self.sampler, self.num_steps = sampler, num_steps

    def construct(self, tokens_BP, real_BP, logits_RBV, temperature, uniforms_RB):
        self.sampler.seen.start(tokens_BP, real_BP)
        tokens, logps = (), ()
        for step in range(self.num_steps):
            token_B, logp_B = self.sampler(logits_RBV[step], temperature, uniforms_RB[step])
            tokens, logps = (*tokens, token_B), (*logps, logp_B)
        return tokens, logps


@pytest.fixture(scope="module")
def draws():
    return _Draws(PenalisedSampler(TopK(4), SeenTokens(PENALTY, batch_rows=3, vocab_size=VOCAB)), STEPS)


@pytest.mark.parametrize("seed", [0, 1])
def test_tokens_and_log_probabilities_are_the_oracles(draws, seed):
    """A second call starts afresh: what the first one drew is forgotten, what pads hold was never seen."""
    rng = np.random.default_rng(seed)
    tokens, lengths = left_padded(PROMPTS, 5, pad=9)
    real = (np.arange(5) >= 5 - lengths[:, None]).astype(np.float32)
    logits = (2.0 * rng.normal(size=(STEPS, 3, VOCAB))).astype(np.float32)
    uniforms = rng.random((STEPS, 3)).astype(np.float32)
    drawn, logps = run(draws, tokens, real, logits, np.array([0.7], np.float32), uniforms)
    seen = [list(ids) for ids in PROMPTS]
    for step in range(STEPS):
        for row in range(3):
            held = penalised(logits[step, row], seen[row], PENALTY)
            held[held < np.sort(held)[-4]] = -np.inf
            wanted = inverse_cdf(np.exp(log_softmax(held, 0.7)), uniforms[step, row])
            assert drawn[step][row] == wanted
            expected = log_softmax(logits[step, row], 0.7)[wanted]
            np.testing.assert_allclose(logps[step][row], expected, rtol=F32_RTOL, atol=F32_ATOL)
            seen[row].append(wanted)


def test_by_hand():
    """Of 2 and -2 seen, a penalty of 4 makes 0.5 and -8; what was not seen stays."""
    seen = SeenTokens(4.0, batch_rows=1, vocab_size=4)
    seen.count_BV.set_data(type(seen.count_BV)(np.array([[1, 2, 0, 0]], np.float32)))
    logits = np.array([[2.0, -2.0, 2.0, -2.0]], np.float32)
    np.testing.assert_allclose(run(seen, logits), [[0.5, -8.0, 2.0, -2.0]], rtol=0, atol=F32_ATOL)


def test_a_penalty_of_one_is_no_penalty():
    logits = np.random.default_rng(0).normal(size=(1, 6)).astype(np.float32)
    inputs = (logits, np.ones(1, np.float32), np.array([0.4], np.float32))
    plain = run(ComposedSampler(None), *inputs)
    same = run(PenalisedSampler(None, SeenTokens(1.0, batch_rows=1, vocab_size=6)), *inputs)
    np.testing.assert_array_equal(plain[0], same[0])
    np.testing.assert_array_equal(plain[1], same[1])
