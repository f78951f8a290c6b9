from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmstack.rl.rewards_api import Scores
from llmstack.stages.ppo.experience import Readings, experience_of
from tests.tolerances import F32_ATOL
from tests.unit.stages.online.test_rollout import rollout


def config(**changes):
    values = {"gamma": 1.0, "lam": 1.0, "whiten_advantages": False, "missing_eos_score": None}
    return SimpleNamespace(**(values | changes))


def readings(scored=(True, True)):
    """Policy 0.1 nats above the reference on every token, values 0 but 0.5 after the last place of the second row."""
    value = np.zeros((2, 4), np.float32)
    value[1, 3] = 0.5
    return Readings(
        logp_BR=np.full((2, 3), -1.0, np.float32),
        ref_logp_BR=np.full((2, 3), -1.1, np.float32),
        entropy_BR=np.full((2, 3), 2.0, np.float32),
        value_BS=value,
        scores=Scores(score_B=np.array([1.0, 3.0], np.float32), scored_B=np.array(scored)),
    )


def test_an_ended_answer_earns_its_score_and_a_cut_off_one_its_value():
    got = experience_of(rollout(), readings(), config(), beta=0.5)
    # each token costs 0.5 * 0.1; lambda 1 and values 0: the return of a token is all that follows
    assert got.return_BR[0] == pytest.approx([0.9, 0.95, 0.0], abs=F32_ATOL)
    assert got.return_BR[1] == pytest.approx([0.35, 0.40, 0.45], abs=F32_ATOL)
    assert got.kl == pytest.approx((0.2 + 0.3) / 2, abs=F32_ATOL)


def test_a_missing_end_can_cost():
    got = experience_of(rollout(), readings(), config(missing_eos_score=-1.0), beta=0.0)
    assert got.return_BR[1] == pytest.approx([-1.0, -1.0, -1.0], abs=F32_ATOL)


def test_an_unscored_answer_takes_no_part():
    got = experience_of(rollout(), readings(scored=(True, False)), config(whiten_advantages=True), beta=0.1)
    assert got.mask_BR[1].tolist() == [0, 0, 0]
    assert not got.advantage_BR[1].any()
    assert got.metrics["unscored_ratio"] == 0.5


def test_whitened_advantages_have_mean_0_and_variance_1_over_real_tokens():
    got = experience_of(rollout(), readings(), config(whiten_advantages=True), beta=0.5)
    real = got.advantage_BR[got.mask_BR > 0]
    assert real.mean() == pytest.approx(0.0, abs=F32_ATOL)
    assert real.var() == pytest.approx(1.0, abs=1e-4)


def test_the_sampler_mismatch_is_reported():
    got = experience_of(rollout(), readings(), config(), beta=0.0)
    assert got.metrics["sampler_mismatch"] == pytest.approx(1.0)
