from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from llmstack.config.optim import OptimConfig
from llmstack.stages.learner import Learner
from tests.helpers.stages import OPTIM

ms.set_device("CPU")
ms.set_context(mode=ms.GRAPH_MODE)


class Distance(nn.Cell):
    """Squared distance of a parameter to the batch."""

    def __init__(self):
        super().__init__()
        self.place = Parameter(Tensor(np.zeros(2, np.float32)), name="place")

    def construct(self, inv_count, target):
        total = ops.reduce_sum(ops.square(self.place - target))
        return total * inv_count, total


def learner():
    schedule = {"name": "linear", "warmup": "2 steps", "final_ratio": 0.0}
    cell = Distance()
    return Learner(cell, cell, OptimConfig.model_validate(OPTIM | {"schedule": schedule})), cell


def batch(value):
    return [{"target": np.full(2, value, np.float32)}]


def test_the_schedule_counts_steps_that_were_taken():
    learning, cell = learner()
    rates = []
    for value in (1.0, np.nan, 1.0, 1.0):
        report = learning.update(1.0, batch(value), 4)
        rates.append(learning.lr)
        assert report.finite == np.isfinite(value)
    # step 2 came out non-finite and is taken again at its own rate
    assert rates == pytest.approx([0.005, 0.01, 0.01, 0.01])
    assert learning.steps == 3
    assert np.isfinite(cell.place.asnumpy()).all()


def test_a_restored_learner_goes_on():
    first, _ = learner()
    for _ in range(3):
        first.update(1.0, batch(1.0), 8)
    second, _ = learner()
    second.restore(first.state())
    assert second.steps == 3
    first.update(1.0, batch(1.0), 8)
    second.update(1.0, batch(1.0), 8)
    assert second.lr == first.lr


def test_a_count_of_zero_is_no_division_by_zero():
    learning, _ = learner()
    assert learning.update(0.0, batch(0.0), 4).loss == 0.0
