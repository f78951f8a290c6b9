"""What every implementation of an optimizer's kernels must satisfy: the oracles' values."""

from __future__ import annotations

import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore import dtype as mstype

from tests.reference import adamw as reference
from tests.tolerances import F32_ATOL, F32_RTOL

# on both sides of the kernels' vectors and pieces
SHAPES = {"scalar": (), "short": (5,), "matrix": (7, 33), "pieces": (3, 16384)}
BETAS, EPS, DECAY = (0.9, 0.999), 1e-8, 0.1


class Update(nn.Cell):
    """Parameters with their moments; ``construct(take, scale, rate, eps, keep, *grads)``."""

    def __init__(self, kernel, values, decayed):
        super().__init__()
        self.parameters, self.moments1, self.moments2 = (
            ParameterTuple([Parameter(Tensor(value), name=f"{name}{i}") for i, value in enumerate(arrays)])
            for name, arrays in (
                ("p", values),
                ("m", [np.zeros_like(value) for value in values]),
                ("v", [np.zeros_like(value) for value in values]),
            )
        )
        self.kernel = kernel(BETAS, self.parameters, self.moments1, self.moments2, decayed)

    def construct(self, take, scale, rate, eps, keep, *grads):
        self.kernel(grads, take, (scale, rate, eps, keep))
        return rate

    def step(self, take, grads, *, scale, lr, number):
        root = np.sqrt(1 - BETAS[1] ** number)
        numbers = (scale, lr * root / (1 - BETAS[0] ** number), EPS * root, 1 - lr * DECAY)
        self(Tensor(take), *(Tensor(x, mstype.float32) for x in numbers), *map(Tensor, grads))

    def values(self):
        return [[p.asnumpy().copy() for p in part] for part in (self.parameters, self.moments1, self.moments2)]


def check_update(kernel):
    """Five clipped steps equal the oracle's; the parameters of fewer than two dimensions do not decay."""
    random = np.random.default_rng(0)
    values = [random.normal(size=shape).astype(np.float32) for shape in SHAPES.values()]
    update = Update(kernel, values, [value.ndim >= 2 for value in values])
    oracle = reference.AdamW(values, betas=BETAS, eps=EPS, weight_decay=DECAY)
    for number in range(1, 6):
        grads = [random.normal(size=value.shape).astype(np.float32) for value in values]
        update.step(True, grads, scale=0.25 * number, lr=0.01 * number, number=number)
        oracle.step(0.01 * number, [0.25 * number * grad.astype(np.float64) for grad in grads])
    for ours, wanted in zip(update.values(), (oracle.params, oracle.first, oracle.second), strict=True):
        for one, other in zip(ours, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=F32_RTOL, atol=F32_ATOL)


def check_step_not_taken(kernel):
    """A step not taken keeps every bit, whatever the gradients hold."""
    update = Update(kernel, [np.array([1.0, -2.0, 3.0], np.float32), np.ones((2, 2), np.float32)], [False, True])
    grads = [np.array([1.0, 2.0, -3.0], np.float32), np.ones((2, 2), np.float32)]
    update.step(True, grads, scale=1.0, lr=0.1, number=1)
    before = update.values()
    grads[0][:2] = np.nan, np.inf
    update.step(False, grads, scale=np.nan, lr=0.1, number=1)
    for after, kept in zip(update.values(), before, strict=True):
        for one, other in zip(after, kept, strict=True):
            np.testing.assert_array_equal(one, other)


class Summed(nn.Cell):
    """Hands gradients on as a tuple."""

    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel

    def construct(self, *grads):
        return self.kernel(grads)


def check_sum_of_squares(kernel):
    """The sum equals numpy's in float64."""
    random = np.random.default_rng(1)
    grads = [random.normal(size=shape).astype(np.float32) for shape in SHAPES.values()]
    wanted = sum(np.square(grad.astype(np.float64)).sum() for grad in grads)
    np.testing.assert_allclose(Summed(kernel)(*map(Tensor, grads)).asnumpy(), [wanted], rtol=F32_RTOL)


def check_sum_is_not_finite(kernel):
    """A NaN, an infinity or a square too large shows in the sum."""
    summed = Summed(kernel)
    for bad in (np.nan, np.inf, -np.inf, 1e30):
        grad = np.ones(40, np.float32)
        grad[37] = bad
        assert not np.isfinite(summed(Tensor(np.ones(3, np.float32)), Tensor(grad)).asnumpy()).any()


class Buffered(nn.Cell):
    """Adds gradients to two buffers, or clears them; gives back what was there before."""

    def __init__(self, kernel):
        super().__init__()
        self.sums = ParameterTuple(
            [Parameter(Tensor(np.full(shape, 2.0, np.float32)), name=f"sum{len(shape)}") for shape in ((3,), (2, 2))]
        )
        self.kernel = kernel(self.sums)

    def construct(self, *grads):
        before = self.sums[0] * 1.0
        if grads:
            self.kernel(grads)
        else:
            self.kernel.clear(ops.ones((1,), mstype.float32))
        return before

    def values(self):
        return [parameter.asnumpy().copy() for parameter in self.sums]


def check_buffers(kernel):
    """Two additions by hand, in the order of the program, then nothing is left."""
    buffered = Buffered(kernel)
    grads = Tensor(np.array([1.0, 2.0, 3.0], np.float32)), Tensor(np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(buffered(*grads).asnumpy(), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(buffered(*grads).asnumpy(), [3.0, 4.0, 5.0])
    vector, matrix = buffered.values()
    np.testing.assert_array_equal(vector, [4.0, 6.0, 8.0])
    np.testing.assert_array_equal(matrix, np.full((2, 2), 4.0))
    buffered()
    assert not any(values.any() for values in buffered.values())
