from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor

from llmstack.losses.ppo import PolicyLoss, ValueLoss
from llmstack.models.actor_critic import ActorCritic
from llmstack.models.checkpoint_io import build_causal, build_scalar
from llmstack.stages.objectives import (
    ActorCriticObjective,
    CriticObjective,
    LanguageObjective,
    PairObjective,
    PolicyObjective,
)
from llmstack.stages.scoring import TargetLogProbsAndValues
from tests.helpers.cells import eager, run
from tests.helpers.stages import model_config
from tests.reference.cross_entropy import cross_entropy
from tests.reference.pairwise import pairwise
from tests.reference.ppo import clip_fraction, policy_loss, value_loss
from tests.tolerances import F32_ATOL, ON_POLICY_ATOL

B, T = 2, 6
TARGETS = np.array([1, 3, 8, 0], np.int32)  # the last one is a filler
MASK = np.array([1, 1, 1, 0], np.float32)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    tokens = rng.integers(3, 200, (B, T)).astype(np.int32)
    positions = np.broadcast_to(np.arange(T, dtype=np.int32), (B, T)).copy()
    return tokens, positions, np.ones((B, T), np.int32)


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(1).integers(3, 200, 4).astype(np.int32)


def test_language_objective_is_the_share_of_the_mean(batch, labels):
    model = build_causal(model_config(), seed=0)
    with eager():
        logits = run(model, *batch).reshape(B * T, -1)[TARGETS]
        loss, count = run(LanguageObjective(model, z_loss=1e-3), 0.25, *batch, TARGETS, labels, MASK)
    total, expected_count = cross_entropy(logits, labels, MASK, z_loss=1e-3)
    assert loss == pytest.approx(0.25 * total, abs=F32_ATOL)
    assert count == expected_count == 3


def test_pair_objective_reads_the_last_tokens(batch):
    model = build_scalar(model_config(), seed=0)
    last = np.array([2, 5], np.int32)
    with eager():
        values = run(model, *batch)
        loss, right = run(PairObjective(model, centering=0.1), 1.0, *batch, last, np.array([0.3], np.float32))
    chosen, rejected = values[0, 2], values[1, 5]
    total, _ = pairwise(np.array([chosen]), np.array([rejected]), np.array([0.3]), centering=0.1)
    assert loss == pytest.approx(total, abs=F32_ATOL)
    assert right == float(chosen > rejected)


def test_policy_objective_at_the_sampling_temperature(batch, labels):
    model = build_causal(model_config(), seed=0)
    advantage = np.array([1.0, -2.0, 0.5, 9.0], np.float32)
    objective = PolicyObjective(model, PolicyLoss(0.2, 0.2))
    with eager():
        logp, _ = run(objective.logp, *batch, TARGETS, labels, 0.7)
        on_policy = run(objective, 1 / 3, *batch, TARGETS, labels, 0.7, logp, logp, advantage, MASK)
        old = logp - np.array([0.5, 0.1, -0.4, 3.0], np.float32)
        moved = run(objective, 1 / 3, *batch, TARGETS, labels, 0.7, old, logp, advantage, MASK)
    # ratio 1: the loss is minus the mean advantage, nothing is clipped, nothing has moved
    assert on_policy[0] == pytest.approx(0.5 / 3, abs=F32_ATOL)
    assert on_policy[1] == 0.0 and abs(on_policy[2]) < ON_POLICY_ATOL
    clips = {"clip_low": 0.2, "clip_high": 0.2}
    expected, _ = policy_loss(logp, old, advantage, MASK, **clips)
    assert moved[0] == pytest.approx(expected / 3, abs=F32_ATOL)
    outside = clip_fraction(logp, old, MASK, **clips)
    assert moved[1] == pytest.approx(outside if np.isscalar(outside) else outside[0] / outside[1], abs=F32_ATOL)


def test_the_objective_of_a_shared_trunk_is_the_sum_of_both(batch, labels):
    both = ActorCritic(build_causal(model_config(), seed=0))
    both.score.weight.set_data(Tensor(np.random.default_rng(2).normal(size=both.score.weight.shape).astype(np.float32)))
    policy, value = PolicyLoss(0.2, 0.2, entropy_coef=0.01), ValueLoss(0.2)
    columns = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)
    with eager():
        read = TargetLogProbsAndValues(both)
        logp, entropy, values = run(read, *batch, TARGETS, labels, 0.7)
        old_logp, ref_logp, advantage, old_value, returns = columns + np.array([logp, logp, *[logp * 0] * 3])
        objective = ActorCriticObjective(both, policy, value, value_coef=0.3)
        told = run(
            objective, 1 / 3, *batch, TARGETS, labels, 0.7, old_logp, ref_logp, advantage, old_value, returns, MASK
        )
        alone = run(PolicyObjective(both.policy, policy), 1 / 3, *batch, TARGETS, labels, 0.7,
                    old_logp, ref_logp, advantage, MASK)  # fmt: skip
    expected, _ = value_loss(values, old_value, returns, MASK, 0.2)
    assert told[0] == pytest.approx(alone[0] + 0.3 * expected / 3, abs=F32_ATOL)
    assert np.ravel(told[1:-2]) == pytest.approx(np.ravel(alone[1:]), abs=F32_ATOL)
    assert np.ravel(told[-2:]) == pytest.approx([expected / 3, (values * MASK).sum() / 3], abs=F32_ATOL)


def test_critic_objective(batch):
    model = build_scalar(model_config(), seed=0)
    old, returns = np.array([0.5, -0.5, 0.0, 7.0], np.float32), np.array([1.0, 1.0, -1.0, 5.0], np.float32)
    with eager():
        values = run(model, *batch).reshape(-1)[TARGETS]
        loss, mean = run(CriticObjective(model, ValueLoss(0.2)), 1 / 3, *batch, TARGETS, old, returns, MASK)
    expected, _ = value_loss(values, old, returns, MASK, 0.2)
    assert loss == pytest.approx(expected / 3, abs=F32_ATOL)
    assert mean == pytest.approx((values * MASK).sum() / 3, abs=F32_ATOL)
