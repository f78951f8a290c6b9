"""What the step cells hand back and which parameters they move."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore import dtype as mstype

from llmstack.optim.adamw import AdamW
from llmstack.optim.train_step import ApplyStep, GradStep, TrainStep
from tests.tolerances import F32_RTOL

CONFIG = SimpleNamespace(betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)


class Linear(nn.Cell):
    """``inv_count * sum(x * moving) + 0 * frozen``; metrics: the sum of x, and 7."""

    def __init__(self):
        super().__init__()
        self.moving = Parameter(Tensor(np.zeros(2, np.float32)), name="moving")
        self.frozen = Parameter(Tensor(np.ones(2, np.float32)), name="frozen", requires_grad=False)
        self.seven = Tensor(7.0, mstype.float32)

    def construct(self, inv_count, x):
        return (x * self.moving * self.frozen).sum() * inv_count, x.sum(), self.seven


def scalar(value):
    return Tensor(value, mstype.float32)


def test_outputs_by_hand_and_only_trainable_parameters_move():
    objective = Linear()
    step = TrainStep(objective, AdamW(objective.trainable_params(), CONFIG), max_grad_norm=100.0)
    loss, norm, finite, total, seven = step(scalar(0.5), scalar(0.5), Tensor(np.array([6.0, -8.0], np.float32)))
    assert [float(loss), float(norm), bool(finite), float(total), float(seven)] == [0.0, 5.0, True, -2.0, 7.0]
    np.testing.assert_allclose(objective.moving.asnumpy(), [-0.5, 0.5], rtol=F32_RTOL)
    np.testing.assert_array_equal(objective.frozen.asnumpy(), [1.0, 1.0])
    assert [param.name for param in objective.get_parameters()] == ["moving", "frozen"]


def test_buffers_add_up_and_are_empty_after_the_update():
    objective = Linear()
    optimizer = AdamW(objective.trainable_params(), CONFIG)
    grad_step = GradStep(objective, optimizer.parameters)
    apply_step = ApplyStep(optimizer, grad_step.buffers, max_grad_norm=100.0)
    for values in ([6.0, 0.0], [0.0, -8.0]):
        outputs = grad_step(scalar(0.5), Tensor(np.array(values, np.float32)))
        assert len(outputs) == 3
    np.testing.assert_array_equal(grad_step.buffers[0].asnumpy(), [3.0, -4.0])
    norm, finite = apply_step(scalar(0.5))
    assert float(norm) == 5.0 and bool(finite)
    np.testing.assert_array_equal(grad_step.buffers[0].asnumpy(), [0.0, 0.0])
    np.testing.assert_allclose(objective.moving.asnumpy(), [-0.5, 0.5], rtol=F32_RTOL)
