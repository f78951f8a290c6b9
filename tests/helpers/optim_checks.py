"""What every implementation of an optimizer's kernels must satisfy: the oracles' values."""

from __future__ import annotations

import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore import dtype as mstype

from tests.reference import adamw as reference
from tests.tolerances import F32_ATOL, F32_RTOL

# on both sides of the kernels' vectors and pieces
SHAPES = {"scalar": (), "short": (5,), "matrix": (7, 33), "pieces": (3, 16384)}
BETAS, EPS = (0.9, 0.999), 1e-8


class Update(nn.Cell):
    """One parameter with its moments; ``construct(take, scale, rate, eps, keep, grad)``."""

    def __init__(self, kernel, value):
        super().__init__()
        self.kernel = kernel
        self.param = Parameter(Tensor(value), name="param")
        self.moment1 = Parameter(Tensor(np.zeros_like(value)), name="moment1")
        self.moment2 = Parameter(Tensor(np.zeros_like(value)), name="moment2")

    def construct(self, take, scale, rate, eps, keep, grad):
        factors = self.kernel.prepare(take, scale, rate, eps, keep)
        self.kernel(self.param, self.moment1, self.moment2, grad, factors)
        return rate

    def step(self, take, grad, *, scale, lr, decay, number):
        root = np.sqrt(1 - BETAS[1] ** number)
        numbers = (scale, lr * root / (1 - BETAS[0] ** number), EPS * root, 1 - lr * decay)
        self(Tensor(take), *(Tensor(x, mstype.float32) for x in numbers), Tensor(grad))

    def values(self):
        return [p.asnumpy().copy() for p in (self.param, self.moment1, self.moment2)]


def check_update(kernel, shape):
    """Five clipped and decayed steps equal the oracle's."""
    random = np.random.default_rng(0)
    value = random.normal(size=shape).astype(np.float32)
    update = Update(kernel, value)
    oracle = reference.AdamW([value[None, None]], betas=BETAS, eps=EPS, weight_decay=0.1)
    for number in range(1, 6):
        grad, scale = random.normal(size=shape).astype(np.float32), 0.25 * number
        update.step(True, grad, scale=scale, lr=0.01 * number, decay=0.1, number=number)
        oracle.step(0.01 * number, [scale * grad.astype(np.float64)[None, None]])
    for ours, wanted in zip(update.values(), (oracle.params, oracle.first, oracle.second), strict=True):
        np.testing.assert_allclose(ours, wanted[0][0, 0], rtol=F32_RTOL, atol=F32_ATOL)


def check_step_not_taken(kernel):
    """A step not taken keeps every bit, whatever the gradient holds."""
    update = Update(kernel, np.array([1.0, -2.0, 3.0], np.float32))
    update.step(True, np.array([1.0, 2.0, -3.0], np.float32), scale=1.0, lr=0.1, decay=0.1, number=1)
    before = update.values()
    update.step(False, np.array([np.nan, np.inf, 1.0], np.float32), scale=np.nan, lr=0.1, decay=0.1, number=1)
    for after, kept in zip(update.values(), before, strict=True):
        np.testing.assert_array_equal(after, kept)


def check_sum_of_squares(kernel, shape):
    """The sum equals numpy's in float64."""
    grad = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    wanted = np.square(grad.astype(np.float64)).sum()
    np.testing.assert_allclose(kernel(Tensor(grad)).asnumpy(), [wanted], rtol=F32_RTOL)


def check_sum_is_not_finite(kernel):
    """A NaN, an infinity or a square too large shows in the sum."""
    for bad in (np.nan, np.inf, -np.inf, 1e30):
        grad = np.ones(40, np.float32)
        grad[37] = bad
        assert not np.isfinite(kernel(Tensor(grad)).asnumpy()).any()
