"""A changing learning rate, weight or batch compiles nothing: one graph a step, two with accumulation."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor

from llmstack.optim.adamw import AdamW
from llmstack.optim.updater import Updater
from llmstack.runtime import compile_count
from tests.numerics.test_optimizer import Quadratic, config


@pytest.mark.parametrize(("accumulate", "graphs"), [(1, 1), (2, 2)])
def test_fifty_steps_compile_once(accumulate, graphs):
    objective = Quadratic()
    update = Updater(objective, AdamW(objective.trainable_params(), config()), max_grad_norm=1.0, accumulate=accumulate)
    random = np.random.default_rng(0)
    before = compile_count.snapshot()
    for step in range(50):
        micro = []
        for _ in range(accumulate):
            x, y = random.normal(size=(6, 4)).astype(np.float32), random.normal(size=(6, 3)).astype(np.float32)
            if step == 20:
                x[0, 0] = np.nan
            micro.append((Tensor(x), Tensor(y), Tensor((random.random(6) < 0.7).astype(np.float32))))
        report = update(0.1 / (1 + step), 1 / (1 + step), micro)
        assert report.finite == (step != 20)
    compiled = compile_count.snapshot() - before
    assert compiled.graphs == graphs
    assert compiled.seconds > 0


def test_another_shape_is_counted():
    objective = Quadratic()
    update = Updater(objective, AdamW(objective.trainable_params(), config()), max_grad_norm=1.0)
    before = compile_count.snapshot()
    for rows in (3, 3, 5):
        zeros = [Tensor(np.zeros(shape, np.float32)) for shape in ((rows, 4), (rows, 3), (rows,))]
        update(0.1, 1.0, [zeros])
    assert (compile_count.snapshot() - before).graphs == 2
