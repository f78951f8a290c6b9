"""Gradient accumulation on ragged rows equals one large batch: loss, norm and weights."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor

from llmstack.optim.adamw import AdamW
from llmstack.optim.updater import Updater
from tests.numerics.test_optimizer import Quadratic, config
from tests.tolerances import EQUIVALENCE_ATOL, EXACT


def ragged_batch(seed):
    """8 rows of which a random half counts; the first four rows hold few of them, so micro means differ."""
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(8, 4)), random.normal(size=(8, 3))
    mask = random.random(8) < np.array([0.1] * 4 + [0.9] * 4)
    mask[-1] = True
    return x.astype(np.float32), y.astype(np.float32), mask.astype(np.float32)


def run(accumulate, *, poison_step=None):
    objective = Quadratic()
    optimizer = AdamW(objective.trainable_params(), config())
    update = Updater(objective, optimizer, max_grad_norm=1.0, accumulate=accumulate)
    reports = []
    for seed in range(6):
        arrays = ragged_batch(seed)
        inv_count = 1 / arrays[2].sum()
        if seed == poison_step:
            arrays[0][-1, 0] = np.nan
        rows = 8 // accumulate
        micro = [tuple(Tensor(a[i * rows : (i + 1) * rows]) for a in arrays) for i in range(accumulate)]
        reports.append(update(0.05, inv_count, micro))
    return reports, [p.asnumpy() for p in objective.trainable_params()], optimizer


@pytest.fixture(scope="module")
def whole():
    return run(1)


@pytest.mark.parametrize("accumulate", [2, 4, 8])
def test_micro_batches_add_up_to_the_large_batch(whole, accumulate):
    reports, weights, optimizer = run(accumulate)
    for ours, wanted in zip(reports, whole[0], strict=True):
        assert ours.loss == pytest.approx(wanted.loss, abs=EQUIVALENCE_ATOL)
        assert ours.grad_norm == pytest.approx(wanted.grad_norm, abs=EQUIVALENCE_ATOL)
        assert ours.metrics == wanted.metrics
        assert ours.finite
    for ours, wanted in zip(weights, whole[1], strict=True):
        np.testing.assert_allclose(ours, wanted, atol=EQUIVALENCE_ATOL)
    assert int(optimizer.state()["step"]) == 6


def test_mean_of_micro_means_would_differ():
    """The check above can fail: the usual mistake is far outside its tolerance."""
    x, y, mask = ragged_batch(0)
    losses = ((x @ np.ones((4, 3)) - y) ** 2).sum(1)
    exact = (losses * mask).sum() / mask.sum()
    halves = [(losses[i:j] * mask[i:j]).sum() / max(1, mask[i:j].sum()) for i, j in ((0, 4), (4, 8))]
    assert abs(exact - np.mean(halves)) > 100 * EQUIVALENCE_ATOL


def test_poisoned_micro_batch_skips_the_step_and_leaves_clean_buffers():
    skipped, weights, optimizer = run(4, poison_step=2)
    alone, wanted, _ = run(1, poison_step=2)
    assert [report.finite for report in skipped] == [True, True, False, True, True, True]
    assert int(optimizer.state()["step"]) == 5
    for ours, other in zip(weights, wanted, strict=True):
        np.testing.assert_allclose(ours, other, atol=EQUIVALENCE_ATOL, rtol=EXACT)


def test_wrong_number_of_micro_batches_is_refused():
    objective = Quadratic()
    update = Updater(objective, AdamW(objective.trainable_params(), config()), max_grad_norm=1.0, accumulate=2)
    with pytest.raises(ValueError, match="expected 2 of them, got 1"):
        update(0.1, 1.0, [()])
