from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.grpo import GrpoConfig
from llmstack.config.load import load_recipe
from llmstack.rl.rewards_api import Scores
from llmstack.stages.grpo.experience import Readings, experience_of
from llmstack.stages.grpo.gathering import Gathered
from llmstack.stages.online.rollout import join
from tests.tolerances import F32_ATOL
from tests.unit.stages.online.test_rollout import rollout


@pytest.fixture(scope="module")
def options():
    return load_recipe("grpo_arithmetic").resolved["stages"]["policy"]


def experience(
    options, scores=(1.0, 3.0, 0.0, 0.0), scored=(True,) * 4, live=(True,) * 4, beta=0.0, said=None, **changes
):
    """Two groups of two answers; in each the first has 2 tokens and ended, the second has 3 and was cut off."""
    changes = {"advantage": {"kind": "dr_grpo"}, "samples_per_prompt": 2, "response_len": 3} | changes
    config = GrpoConfig.model_validate({**options, **changes})
    made = join([rollout(), rollout()])
    found = Scores(score_B=np.array(scores, np.float32), scored_B=np.array(scored), metrics=said or {})
    logp = np.full((4, 3), -1.0, np.float32)
    readings = Readings(logp, logp - 0.1, np.full((4, 3), 2.0, np.float32))
    return experience_of(Gathered(made, found, np.arange(4), np.array(live), {}), made, readings, config, beta=beta)


def test_an_answer_is_measured_against_its_group(options):
    got = experience(options)
    assert got.advantage_BR.tolist() == [[-1, -1, 0], [1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert got.weight_BR.tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 1, 1]]
    assert got.count_B.tolist() == [2, 3, 2, 3]
    assert got.kl == pytest.approx((0.2 + 0.3) / 2, abs=F32_ATOL)
    assert got.metrics["zero_spread_ratio"] == 0.5 and got.metrics["group_std_mean"] == 0.5
    assert got.metrics["score_mean"] == 1.0 and got.metrics["truncated_ratio"] == 0.5
    assert got.metrics["advantage_min"] == -1 and got.metrics["advantage_max"] == 1


def test_kl_in_the_reward_is_paid_by_each_answer(options):
    # the second answer of a group has a token more: 0.5 * 0.1
    got = experience(options, beta=0.5)
    assert got.advantage_BR[2:, 0] == pytest.approx([0.025, -0.025], abs=F32_ATOL)


def test_a_cut_off_answer_is_kept_masked_or_dropped(options):
    kept, masked, dropped = (experience(options, truncated=how) for how in ("keep", "mask", "drop"))
    assert kept.count_B.tolist() == [2, 3, 2, 3]
    # masked: no loss, but the other answer is still measured against it
    assert masked.count_B.tolist() == [2, 0, 2, 0] and masked.advantage_BR[0].tolist() == [-1, -1, 0]
    assert masked.metrics["masked_ratio"] == 0.5
    # dropped: nothing is left to be measured against
    assert dropped.count_B.tolist() == [2, 0, 2, 0] and not dropped.advantage_BR.any()


def test_an_unscored_answer_takes_no_part(options):
    got = experience(options, scored=(True, False, True, True))
    assert got.count_B.tolist() == [2, 0, 2, 3] and not got.advantage_BR[:2].any()
    assert got.metrics["unscored_ratio"] == 0.25


def test_rows_that_fill_up_take_no_part(options):
    got = experience(options, live=(False, False, True, True))
    assert got.count_B.tolist() == [0, 0, 2, 3] and not got.advantage_BR.any()


def test_long_answers_can_cost(options):
    # 3 of 3 tokens with a buffer of 2: 2/2; 2 tokens: 1/2; times the penalty of 4
    got = experience(options, scores=(0, 0, 0, 0), overlong={"buffer": 2, "penalty": 4.0})
    assert got.advantage_BR[:2, 0].tolist() == [1, -1]
    assert got.metrics["score_mean"] == 0


def test_what_the_reward_says_of_itself_is_reported(options):
    assert experience(options, said={"reward/parts": 2.0}).metrics["reward/parts"] == 2.0


def test_importance_weights_ride_on_the_advantages(options):
    # the sampler saw probability 1, the training graph exp(-1)
    assert experience(options, importance_cap=2.0).advantage_BR[1] == pytest.approx([np.exp(-1)] * 3, abs=F32_ATOL)
    assert experience(options, importance_cap=0.1).advantage_BR[1] == pytest.approx([0.1] * 3, abs=F32_ATOL)
    got = experience(options)
    assert got.metrics["importance_ess_ratio"] == pytest.approx(1.0) and got.metrics["sampler_mismatch"] == 1.0


def test_aggregation_decides_the_weights(options):
    got = experience(options, aggregation="seq_mean_token_mean")
    assert got.weight_BR[0].tolist() == [0.5, 0.5, 0] and got.count_B.tolist() == [1, 1, 1, 1]


def test_all_cut_off_and_all_unscored_are_finite(options):
    for changes in ({"scored": (False,) * 4}, {"live": (False,) * 4}):
        got = experience(options, **changes)
        assert not got.count_B.any() and not got.advantage_BR.any()
        assert all(np.isfinite(value) for value in got.metrics.values())
