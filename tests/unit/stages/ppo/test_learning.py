from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmstack.optim.updater import UpdateReport
from llmstack.stages.ppo.experience import Experience
from llmstack.stages.ppo.learning import PpoLearner, Schedule
from tests.unit.stages.online.test_rollout import rollout

BELOW = (0.0, 0.0, 0.0, 1.0, 1.0, 1.0)


class Recorder:
    """Stands in for a learner: keeps its batches, reports what it is told to."""

    lr = 0.5

    def __init__(self, metrics):
        self.metrics, self.calls = list(metrics), []

    def update(self, count, micro_batches, total_steps):
        self.calls.append((count, micro_batches, total_steps))
        metrics = self.metrics[min(len(self.calls), len(self.metrics)) - 1]
        return UpdateReport(loss=1.0, grad_norm=2.0, finite=True, metrics=metrics)


def experience():
    made = rollout()
    ones = np.ones((2, 3), np.float32)
    return Experience(ones, ones, ones, 2 * ones, 3 * ones, made.mask_BR, 0.0, {})


def learner(policy, critic, **changes):
    values = {
        "temperature": 0.7,
        "epochs": 2,
        "minibatches": 2,
        "accumulate": 1,
        "max_ratio_kl": None,
        "critic": SimpleNamespace(warmup_iterations=1),
    }
    return PpoLearner(policy, critic, SimpleNamespace(**(values | changes)), seed=1)


def test_every_row_is_seen_once_an_epoch_and_counts_are_real_tokens():
    policy, critic = Recorder([(0.0, 0.0, 1.0, 1.0, 1.0, *BELOW)]), Recorder([(0.0,)])
    learned = learner(policy, critic).learn(2, rollout(), experience(), Schedule(10, 20))
    assert len(policy.calls) == len(critic.calls) == 4
    assert sorted(call[0] for call in policy.calls) == [2.0, 2.0, 3.0, 3.0]
    assert {call[2] for call in policy.calls} == {10} and {call[2] for call in critic.calls} == {20}
    batch = policy.calls[0][1][0]
    words = "tokens positions segments targets labels temperature old_logp ref_logp advantage mask"
    assert list(batch) == words.split()
    assert batch["temperature"] == np.float32(0.7)
    assert learned.metrics["updates"] == 4 and not learned.skipped


def test_with_a_shared_trunk_one_update_takes_the_columns_of_both():
    both = Recorder([(0.0, 0.0, 1.0, 1.0, 0.0, *BELOW, 4.0, 5.0)])
    learned = learner(both, None).learn(2, rollout(), experience(), Schedule(10, 20))
    words = "tokens positions segments targets labels temperature old_logp ref_logp advantage old_value returns mask"
    assert list(both.calls[0][1][0]) == words.split()
    assert (learned.metrics["value_loss"], learned.metrics["value_mean"], learned.metrics["updates"]) == (4, 5, 4)


def test_only_the_critic_learns_in_its_warm_up():
    policy, critic = Recorder([(0.0, 0.0, 1.0, 1.0, 1.0, *BELOW)]), Recorder([(0.0,)])
    learned = learner(policy, critic).learn(1, rollout(), experience(), Schedule(1, 1))
    assert policy.calls == [] and len(critic.calls) == 4
    assert "policy_loss" not in learned.metrics


def test_an_iteration_is_left_when_the_policy_moved_too_far():
    moved = [(0.0, kl, 1.0, 1.0, 1.0, *BELOW) for kl in (0.01, 0.3)]
    policy, critic = Recorder(moved), Recorder([(0.0,)])
    learned = learner(policy, critic, max_ratio_kl=0.1).learn(2, rollout(), experience(), Schedule(1, 1))
    assert len(policy.calls) == 2
    assert learned.metrics["kl_old_new"] == pytest.approx(0.155)


def test_a_minibatch_splits_into_micro_batches():
    policy, critic = Recorder([(0.0, 0.0, 1.0, 1.0, 1.0, *BELOW)]), Recorder([(0.0,)])
    made = learner(policy, critic, minibatches=1, accumulate=2)
    made.learn(2, rollout(), experience(), Schedule(1, 1))
    count, micro, _ = policy.calls[0]
    assert count == 5.0 and [batch["tokens"].shape for batch in micro] == [(1, 6), (1, 6)]
