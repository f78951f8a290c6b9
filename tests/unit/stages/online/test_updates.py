from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmstack.optim.updater import UpdateReport
from llmstack.rl.minibatch import Minibatch
from llmstack.stages.online.updates import POLICY_METRICS, Seen, cut, deal, policy_columns, update_on
from tests.unit.stages.online.test_rollout import rollout

HISTOGRAM = ("0_0.5", "0.5_0.8", "0.8_0.95", "0.95_1.05", "1.05_1.25", "1.25_2", "2_inf")


class Recorder:
    """Stands in for a learner: keeps what it is given."""

    def update(self, count, micro_batches, total_steps):
        self.count, self.micro_batches = count, micro_batches
        return UpdateReport(loss=1.0, grad_norm=2.0, finite=True, metrics=(10.0 / count,))


BOTH = Minibatch(rows_M=np.array([1, 0]), weight_M=np.ones(2, np.float32))


def columns(weight):
    made, ones = rollout(), np.ones((2, 3), np.float32)
    return policy_columns(
        made, temperature=0.7, old_logp_BR=ones, ref_logp_BR=ones, advantage_BR=ones, weight_BR=weight * made.mask_BR
    )


def test_the_loss_is_divided_by_the_tokens_unless_told_otherwise():
    learner, weight = Recorder(), np.full((2, 3), 0.5, np.float32)
    report = update_on(learner, cut(BOTH, rollout(), columns(weight), accumulate=1), total_steps=5)
    assert learner.count == 5.0 and report.metrics == (2.0,)
    batch = learner.micro_batches[0]
    words = "tokens positions segments targets labels temperature old_logp ref_logp advantage mask"
    assert list(batch) == words.split()
    assert batch["mask"].tolist() == [0.5, 0.5, 0.5, 0.5, 0.5, 0.0]
    assert batch["labels"].tolist() == [6, 7, 8, 5, 1, 0]


def test_measurements_are_means_over_tokens_whatever_the_loss_is_divided_by():
    learner = Recorder()
    step = cut(BOTH, rollout(), columns(1.0), accumulate=1, count_B=np.array([1.0, 1.0]))
    report = update_on(learner, step, total_steps=5)
    assert learner.count == 2.0 and report.metrics == pytest.approx((2.0,))


def test_a_filler_counts_nothing():
    half = Minibatch(rows_M=np.array([1, 0]), weight_M=np.array([1, 0], np.float32))
    step = cut(half, rollout(), columns(1.0), accumulate=2, count_B=np.array([1.0, 1.0]))
    assert step.count == 1.0 and step.tokens == 3.0
    assert [batch["mask"].sum() for batch in step.batches] == [3.0, 0.0]


def test_each_epoch_has_every_row_once():
    config = SimpleNamespace(epochs=2, minibatches=3)
    dealt = deal(config, 6, seed=1, iteration=4)
    assert len(dealt) == 6
    for epoch in (dealt[:3], dealt[3:]):
        assert sorted(np.concatenate([minibatch.rows_M for minibatch in epoch])) == list(range(6))


def test_what_was_seen_is_averaged():
    seen = Seen()
    assert seen.last("kl_old_new") == 0.0 and seen.learned().metrics == {}
    for ratio, off, finite in ((1.0, 0.5, True), (2.0, 2.0, False)):
        below = (0.0, 0.1, 0.2, 0.6, 0.8, 1.0) if finite else (0.0, 0.1, 0.2, 0.8, 0.8, 0.8)
        metrics = (0.0, ratio, 0.0, ratio, off, *below)
        seen.note("policy", UpdateReport(3.0, 4.0, finite, metrics), POLICY_METRICS)
    learned = seen.learned()
    assert learned.skipped and seen.last("kl_old_new") == 2.0 and seen.count("policy_loss") == 2
    # mean 1.5, mean square distance from 1 1.25: variance 1
    assert learned.metrics["ratio_mean"] == 1.5 and learned.metrics["ratio_std"] == 1.0
    assert learned.metrics["policy_loss"] == 3.0 and learned.metrics["policy_grad_norm"] == 4.0
    # shares of tokens between the edges, from shares below each
    shares = {name: share for name, share in learned.metrics.items() if name.startswith("ratio_hist/")}
    assert list(shares) == [f"ratio_hist/{edges}" for edges in HISTOGRAM]
    assert list(shares.values()) == pytest.approx([0.0, 0.1, 0.1, 0.5, 0.1, 0.1, 0.1])
