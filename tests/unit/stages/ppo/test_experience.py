from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from llmstack.config.ppo import ScoresConfig
from llmstack.rl.rewards_api import Scores
from llmstack.stages.ppo.experience import Readings, experience_of
from tests.tolerances import F32_ATOL, F32_RTOL
from tests.unit.stages.online.test_rollout import rollout


def config(**changes):
    values = {
        "gamma": 1.0,
        "lam": 1.0,
        "whiten_rewards": False,
        "whiten_advantages": False,
        "truncated": "bootstrap",
        "missing_eos_score": None,
        "importance_cap": None,
        "scores": ScoresConfig(),
    }
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
    assert real.var() == pytest.approx(1.0, abs=F32_ATOL)


def test_the_sampler_mismatch_is_reported():
    got = experience_of(rollout(), readings(), config(), beta=0.0)
    assert got.metrics["sampler_mismatch"] == pytest.approx(1.0)


def test_scores_of_steps_are_earned_where_they_stand():
    steps = np.array([[0.25, 0.0, 0.0], [0.0, 2.0, 0.0]], np.float32)
    scores = Scores(score_B=np.array([1.0, 3.0], np.float32), scored_B=np.ones(2, bool), token_score_BR=steps)
    got = experience_of(rollout(), replace(readings(), scores=scores), config(), beta=0.0)
    # 0.25 at once and 0.75 at the end; the cut-off answer has its step of 2 and goes on by its value of 0.5
    assert got.return_BR[0] == pytest.approx([1.0, 0.75, 0.0], abs=F32_ATOL)
    assert got.return_BR[1] == pytest.approx([2.5, 2.5, 0.5], abs=F32_ATOL)


def test_scores_are_divided_by_their_deviation_and_then_clipped():
    ended = config(missing_eos_score=-6.0, scores=ScoresConfig(clip=0.25))
    got = experience_of(rollout(), readings(), ended, beta=0.0, score_std=2.0)
    # 1 / 2 is clipped to 0.25; a missing end costs what the recipe says, in its own unit
    assert got.return_BR[0] == pytest.approx([0.25, 0.25, 0.0], abs=F32_ATOL)
    assert got.return_BR[1] == pytest.approx([-6.0, -6.0, -6.0], abs=F32_ATOL)
    assert got.metrics["score_mean"] == 2.0


def test_rewards_can_be_divided_by_their_deviation():
    got = experience_of(rollout(), readings(), config(whiten_rewards=True), beta=0.5)
    rewards = np.array([-0.05, 0.95, -0.05, -0.05, -0.05])
    scaled = (rewards - rewards.mean()) / rewards.std() + rewards.mean()
    assert got.return_BR[0, :2] == pytest.approx([scaled[:2].sum(), scaled[1]], rel=F32_RTOL)


def test_a_cut_off_answer_may_have_no_loss_but_be_in_the_statistics():
    whitened = {"whiten_advantages": True}
    kept = experience_of(rollout(), readings(), config(**whitened), beta=0.5)
    masked = experience_of(rollout(), readings(), config(truncated="mask", **whitened), beta=0.5)
    assert masked.mask_BR.tolist() == [[1, 1, 0], [0, 0, 0]] and masked.metrics["masked_ratio"] == 0.5
    np.testing.assert_array_equal(masked.advantage_BR, kept.advantage_BR)


def test_a_cut_off_answer_may_be_dropped_altogether():
    got = experience_of(rollout(), readings(), config(truncated="drop", whiten_advantages=True), beta=0.5)
    assert got.mask_BR.tolist() == [[1, 1, 0], [0, 0, 0]]
    # of the two tokens that are left one is above the mean and one below
    assert got.advantage_BR[0] == pytest.approx([-1.0, 1.0, 0.0], abs=F32_ATOL)
    assert not got.advantage_BR[1].any()


def test_when_every_answer_is_cut_off_nothing_is_learnt_and_all_is_finite():
    cut_off = replace(rollout(), finished_B=np.zeros(2, bool))
    got = experience_of(cut_off, readings(), config(truncated="drop", whiten_advantages=True), beta=0.5)
    assert not got.mask_BR.any() and not got.advantage_BR.any()
    assert all(np.isfinite(value) for value in got.metrics.values())


def test_the_samplers_other_numbers_are_corrected_up_to_a_cap():
    # the sampler saw log-probability 0, the graph -1: each token counts exp(-1)
    plain = experience_of(rollout(), readings(), config(), beta=0.5)
    weighed = experience_of(rollout(), readings(), config(importance_cap=2.0), beta=0.5)
    capped = experience_of(rollout(), readings(), config(importance_cap=0.1), beta=0.5)
    np.testing.assert_allclose(weighed.advantage_BR, plain.advantage_BR * np.exp(-1), rtol=F32_RTOL)
    np.testing.assert_allclose(capped.advantage_BR, plain.advantage_BR * 0.1, rtol=F32_RTOL)
    assert plain.metrics["importance_ess_ratio"] == pytest.approx(1.0)
