"""The operations of an optimizer step as plain operators."""

from __future__ import annotations

from collections.abc import Sequence

from mindspore import ParameterTuple, Tensor, nn, ops
from mindspore import dtype as mstype


class ComposedSumOfSquares(nn.Cell):
    """``sum_i sum(g_i^2)`` in float32.

    Squares are summed over the last axis first and the short rest after it: on CPU a sum over all axes at once is
    three to four times slower, and a matmul of a gradient with itself may round to a shorter format on Ascend.
    """

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.reduce_sum = ops.ReduceSum()

    def construct(self, grads: tuple[Tensor, ...]) -> Tensor:
        """Sum.

        Args:
            grads: float32 of any shapes.

        Returns:
            (1,) float32.
        """
        total = 0.0
        for grad in grads:
            total = total + self.reduce_sum(self.reduce_sum(grad * grad, -1))
        return ops.reshape(total, (1,))


class ComposedAdamUpdate(nn.Cell):
    """AdamW of a list of parameters with ``ops.Adam``, the fused operator every target has.

    Args:
        betas: decay rates of the two moments.
        parameters: float32, trained.
        moments1: of their shapes.
        moments2: of their shapes.
        decayed: for each parameter, whether its weight decays.
    """

    def __init__(
        self,
        betas: tuple[float, float],
        parameters: ParameterTuple,
        moments1: ParameterTuple,
        moments2: ParameterTuple,
        decayed: Sequence[bool],
    ) -> None:
        super().__init__(auto_prefix=False)
        self.parameters, self.moments1, self.moments2 = parameters, moments1, moments2
        self.decayed = tuple(decayed)
        self.beta1, self.beta2 = (Tensor(beta, mstype.float32) for beta in betas)
        # ops.Adam corrects the bias itself from beta1^t and beta2^t, in float32: 0 makes its factor exactly 1
        self.zero = Tensor(0.0, mstype.float32)
        self.one = Tensor(1.0, mstype.float32)
        self.adam = ops.Adam()
        self.assign = ops.Assign()
        self.select = ops.Select()
        self.zeros_like = ops.ZerosLike()

    def construct(
        self, grads: tuple[Tensor, ...], take: Tensor, factors: tuple[Tensor, Tensor, Tensor, Tensor]
    ) -> None:
        """Update the parameters and their moments.

        Args:
            grads: in the order and shapes of the parameters.
            take: () bool; false is a step with decay rates 1 and rate 0, which keeps every bit.
            factors: () float32 each: what gradients are multiplied by, the rate and eps with their corrections of the
                bias, and what decaying parameters are multiplied by.
        """
        scale, rate, eps, keep = factors
        rate, keep = self.select(take, rate, self.zero), self.select(take, keep, self.one)
        beta1, beta2 = self.select(take, self.beta1, self.one), self.select(take, self.beta2, self.one)
        for i in range(len(self.parameters)):
            param = self.parameters[i]
            # not `grad * 0`, which is NaN for a NaN; zeros of the same shape, since a constant Select that has to
            # broadcast its third input comes out wrong
            grad = self.select(take, grads[i] * scale, self.zeros_like(grads[i]))
            if self.decayed[i]:
                self.assign(param, param * keep)
            self.adam(param, self.moments1[i], self.moments2[i], self.zero, self.zero, rate, beta1, beta2, eps, grad)


class ComposedBuffers(nn.Cell):
    """Sums of gradients over micro-batches.

    Args:
        buffers: float32, one for every trained parameter.
    """

    def __init__(self, buffers: ParameterTuple) -> None:
        super().__init__(auto_prefix=False)
        self.buffers = buffers
        self.assign_add = ops.AssignAdd()
        self.assign = ops.Assign()
        self.zeros_like = ops.ZerosLike()

    def construct(self, grads: tuple[Tensor, ...]) -> None:
        """Add gradients.

        Args:
            grads: in the order and shapes of the buffers.
        """
        for i in range(len(self.buffers)):
            self.assign_add(self.buffers[i], grads[i])

    def clear(self, after: Tensor) -> None:
        """Set the sums to 0.

        Args:
            after: (1,) float32, computed from what has read them.
        """
        for i in range(len(self.buffers)):
            self.assign(self.buffers[i], self.zeros_like(self.buffers[i]))
