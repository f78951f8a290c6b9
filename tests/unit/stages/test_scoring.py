from __future__ import annotations

import numpy as np
import pytest

from llmstack.models.checkpoint_io import build_causal, build_scalar
from llmstack.stages.scoring import LastScores, TargetLogits, TargetLogProbs, TargetValues
from tests.helpers.cells import eager, run
from tests.helpers.stages import model_config
from tests.reference.logprob import entropy, token_logprobs
from tests.tolerances import F32_ATOL

TARGETS = np.array([4, 0, 7], np.int32)


@pytest.fixture(scope="module")
def batch():
    tokens = np.random.default_rng(0).integers(3, 200, (2, 4)).astype(np.int32)
    return tokens, np.broadcast_to(np.arange(4, dtype=np.int32), (2, 4)).copy(), np.ones((2, 4), np.int32)


def test_only_chosen_positions_reach_the_head(batch):
    model = build_causal(model_config(), seed=0)
    with eager():
        logits = run(model, *batch).reshape(8, -1)
        chosen = run(TargetLogits(model), *batch, TARGETS)
    assert chosen == pytest.approx(logits[TARGETS], abs=F32_ATOL)


def test_log_probabilities_and_entropies(batch):
    model = build_causal(model_config(), seed=0)
    labels = np.array([5, 6, 7], np.int32)
    with eager():
        logits = run(model, *batch).reshape(8, -1)[TARGETS]
        logp, spread = run(TargetLogProbs(model), *batch, TARGETS, labels, 0.5)
    assert logp == pytest.approx(token_logprobs(logits, labels, 0.5), abs=F32_ATOL)
    assert spread == pytest.approx(entropy(logits, 0.5), abs=F32_ATOL)


def test_values_at_chosen_positions_and_scores_at_the_last(batch):
    model = build_scalar(model_config(), seed=0)
    with eager():
        values = run(model, *batch)
        assert run(TargetValues(model), *batch, TARGETS) == pytest.approx(values.reshape(-1)[TARGETS])
        scores = run(LastScores(model), *batch, np.array([3, 1], np.int32))
    assert scores == pytest.approx(values[[0, 1], [3, 1]])
