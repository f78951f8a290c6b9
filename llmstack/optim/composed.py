"""The operations of an optimizer step as plain operators."""

from __future__ import annotations

from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype


class ComposedSumOfSquares(nn.Cell):
    """``sum(g^2)`` in float32.

    Squares are summed over the last axis first and the short rest after it: on CPU a sum over all axes at once is
    three to four times slower, and a matmul of a gradient with itself may round to a shorter format on Ascend.
    """

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.reduce_sum = ops.ReduceSum()

    def construct(self, grad: Tensor) -> Tensor:
        """Sum.

        Args:
            grad: float32 of any shape.

        Returns:
            (1,) float32.
        """
        return ops.reshape(self.reduce_sum(self.reduce_sum(grad * grad, -1)), (1,))


class ComposedAdamUpdate(nn.Cell):
    """AdamW of one parameter with ``ops.Adam``, the fused operator every target has.

    Args:
        betas: decay rates of the two moments.
    """

    def __init__(self, betas: tuple[float, float]) -> None:
        super().__init__(auto_prefix=False)
        self.beta1, self.beta2 = (Tensor(beta, mstype.float32) for beta in betas)
        # ops.Adam corrects the bias itself from beta1^t and beta2^t, in float32: 0 makes its factor exactly 1
        self.zero = Tensor(0.0, mstype.float32)
        self.one = Tensor(1.0, mstype.float32)
        self.adam = ops.Adam()
        self.assign = ops.Assign()
        self.select = ops.Select()
        self.zeros_like = ops.ZerosLike()

    def prepare(self, take: Tensor, scale: Tensor, rate: Tensor, eps: Tensor, keep: Tensor) -> tuple[Tensor, ...]:
        """What all parameters of one weight decay share.

        Args:
            take: () bool; false is a step with decay rates 1 and rate 0, which keeps every bit.
            scale: () float32, gradients are multiplied by it.
            rate: () float32, learning rate with the correction of the bias.
            eps: () float32, with its correction.
            keep: () float32, parameters are multiplied by it.

        Returns:
            The third argument of :meth:`construct`.
        """
        return (
            take,
            scale,
            self.select(take, rate, self.zero),
            eps,
            self.select(take, keep, self.one),
            self.select(take, self.beta1, self.one),
            self.select(take, self.beta2, self.one),
        )

    def construct(
        self, param: Parameter, moment1: Parameter, moment2: Parameter, grad: Tensor, factors: tuple[Tensor, ...]
    ) -> None:
        """Update a parameter and its moments.

        Args:
            param: float32.
            moment1: of its shape.
            moment2: of its shape.
            grad: of its shape.
            factors: from :meth:`prepare`.
        """
        take, scale, rate, eps, keep, beta1, beta2 = factors
        # not `grad * 0`, which is NaN for a NaN; zeros of the same shape, since a constant Select that has to broadcast
        # its third input comes out wrong
        grad = self.select(take, grad * scale, self.zeros_like(grad))
        self.assign(param, param * keep)
        self.adam(param, moment1, moment2, self.zero, self.zero, rate, beta1, beta2, eps, grad)
