from __future__ import annotations

import numpy as np
import pytest

from llmstack.evaluation import likelihood
from llmstack.evaluation.likelihood import LikelihoodScorer, Target, length_bucket
from llmstack.runtime import compile_count
from tests.helpers.models import oracle_shape, oracle_weights
from tests.reference.decoder import logits
from tests.reference.logprob import log_softmax
from tests.tolerances import LOGP_MATCH_ATOL


@pytest.fixture(scope="module")
def scorer(language):
    return LikelihoodScorer(language.model)


def oracle(model, target):
    """Log-probabilities of a target's tokens and whether each is the best, without padding or batches."""
    ids = np.array([target.ids])
    states = logits(oracle_weights(model), oracle_shape(model.config), ids, np.arange(ids.size)[None], ids * 0 + 1)[0]
    rows = np.array([log_softmax(state) for state in states])
    wanted = np.arange(target.start, ids.size)
    labels = ids[0, wanted]
    return rows[wanted - 1, labels], rows[wanted - 1].argmax(axis=1) == labels


def test_targets_of_all_lengths_are_the_oracles(scorer, language, monkeypatch):
    """Several buckets, batches that are not full, and more positions than the head takes at once."""
    monkeypatch.setattr(likelihood, "BATCH_TOKENS", 64)
    monkeypatch.setattr(likelihood, "TARGETS", 16)
    rng = np.random.default_rng(0)
    targets = []
    for length in (40, 2, 17, 16, 18, 5, 64, 3, 9, 12):
        ids = rng.integers(0, language.model.vocab_size, length).tolist()
        targets.append(Target(ids, int(rng.integers(1, length))))
    best = scorer.score([Target([5, 6], 1)])[0]
    for target, found in zip(targets, scorer.score(targets), strict=True):
        logp, greedy = oracle(language.model, target)
        np.testing.assert_allclose(found.logp, logp, rtol=0, atol=LOGP_MATCH_ATOL)
        np.testing.assert_array_equal(found.greedy, greedy)
    assert best.logp.shape == (1,)


def test_a_greedy_token_is_known(scorer, language):
    first = np.array([[7]])
    states = logits(
        oracle_weights(language.model), oracle_shape(language.model.config), first, first * 0, first * 0 + 1
    )
    best = int(states[0, 0].argmax())
    assert [t.greedy.tolist() for t in scorer.score([Target([7, best], 1), Target([7, (best + 1) % 270], 1)])] == [
        [True],
        [False],
    ]


def test_one_graph_a_length_and_one_head(language):
    scorer = LikelihoodScorer(language.model)
    compile_count.install()
    before = compile_count.snapshot().graphs
    scorer.score([Target([1] * length, 1) for length in (3, 9, 17, 18, 33)])
    assert compile_count.snapshot().graphs - before == 3
    scorer.score([Target([2] * length, 2) for length in (33, 20, 4)])
    assert compile_count.snapshot().graphs - before == 3


@pytest.mark.parametrize(("length", "bucket"), [(1, 16), (16, 16), (17, 32), (64, 64), (65, 128)])
def test_lengths_are_padded_to_powers_of_two(length, bucket):
    assert length_bucket(length) == bucket
