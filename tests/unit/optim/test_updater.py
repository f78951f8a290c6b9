"""The host's side of a step: reports and their sums. Equality with the large batch: tests/numerics."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor

from llmstack.optim.adamw import AdamW
from llmstack.optim.updater import Updater, UpdateReport
from tests.unit.optim.test_train_step import CONFIG, Linear


@pytest.mark.parametrize("accumulate", [1, 2])
def test_report_by_hand(accumulate):
    objective = Linear()
    update = Updater(objective, AdamW(objective.trainable_params(), CONFIG), max_grad_norm=100.0, accumulate=accumulate)
    micro = [(Tensor(np.array([6.0, -8.0], np.float32) / accumulate),)] * accumulate
    wanted = UpdateReport(loss=0.0, grad_norm=5.0, finite=True, metrics=(-2.0, 7.0 * accumulate))
    assert update(0.5, 0.5, micro) == wanted
