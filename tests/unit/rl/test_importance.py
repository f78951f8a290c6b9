from __future__ import annotations

import numpy as np
import pytest

from llmstack.rl.importance import effective_sample_ratio, importance_weights
from tests.reference import importance as oracle
from tests.reference import ppo
from tests.tolerances import F32_ATOL, F64_ATOL


def test_by_hand():
    # probabilities 0.4 against 0.2: weight 2, capped at 1.5; 0.1 against 0.2: one half; a pad
    logp, sampled = np.log([[0.4, 0.1, 1.0]]), np.log([[0.2, 0.2, 0.5]])
    got = importance_weights(logp, sampled, np.array([[1, 1, 0]]), cap=1.5)
    np.testing.assert_allclose(got, [[1.5, 0.5, 0.0]], atol=F32_ATOL)
    # weights 1 and 3: 16 / (2 * 10)
    assert effective_sample_ratio(np.array([1.0, 3.0]), np.ones(2)) == pytest.approx(0.8)


@pytest.mark.parametrize("cap", [None, 1.2])
def test_they_match_the_oracle(cap):
    rng = np.random.default_rng(0)
    logp, mask = rng.normal(-2, 1, (3, 6)), rng.random((3, 6)) < 0.7
    sampled = logp + rng.normal(0, 0.3, (3, 6))
    sampled[~mask] = np.nan
    got = importance_weights(logp, sampled, mask, cap=cap)
    np.testing.assert_allclose(got, oracle.importance_weights(logp, sampled, mask, cap), atol=F32_ATOL)
    wanted = oracle.effective_sample_ratio(got[mask].astype(np.float64).tolist())
    assert effective_sample_ratio(got, mask) == pytest.approx(wanted, abs=F64_ATOL)


def test_equal_sampler_and_trainer_weigh_1_and_lose_nothing():
    same = np.full((2, 3), -1.5, np.float32)
    got = importance_weights(same, same, np.ones((2, 3)), cap=2.0)
    assert (got == 1).all() and effective_sample_ratio(got, np.ones((2, 3))) == 1.0


def test_no_token_and_absurd_ratios_stay_finite():
    assert effective_sample_ratio(np.zeros((1, 2)), np.zeros((1, 2))) == 1.0
    wild = importance_weights(np.array([[0.0, -500.0]]), np.array([[-500.0, 0.0]]), np.ones((1, 2)), cap=None)
    assert np.isfinite(wild).all()


@pytest.mark.parametrize("dual_clip", [None, 1.5])
def test_weighing_the_advantage_weighs_the_policy_term(dual_clip):
    """What lets the weights ride on the advantages."""
    rng = np.random.default_rng(1)
    logp, old, advantage = rng.normal(size=(3, 50))
    weight = rng.random(50) * 2
    clips = {"clip_low": 0.2, "clip_high": 0.3, "dual_clip": dual_clip}
    terms, _ = ppo.policy_terms(logp, old, advantage, **clips)
    weighed, _ = ppo.policy_terms(logp, old, weight * advantage, **clips)
    np.testing.assert_allclose(weighed, weight * terms, atol=F64_ATOL)
