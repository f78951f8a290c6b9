"""The operations of an optimizer step as compiled CPU kernels, with the interfaces of :mod:`llmstack.optim.composed`.

A step is bound by memory: the clip, the decay, both moments and the weight are one pass instead of six.
"""

from __future__ import annotations

from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype

from llmstack.nn.native.custom import kernel, writing_kernel


class NativeSumOfSquares(nn.Cell):
    """``sum(g^2)``, in float32 within pieces of 16384 numbers and in float64 over them."""

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.kernel = kernel("sum_of_squares", lambda grad: (1,), lambda grad: grad)

    def construct(self, grad: Tensor) -> Tensor:
        """Sum.

        Args:
            grad: float32 of any shape.

        Returns:
            (1,) float32.
        """
        return self.kernel(grad)


class NativeAdamUpdate(nn.Cell):
    """AdamW of one parameter in one pass over it.

    Args:
        betas: decay rates of the two moments.
    """

    def __init__(self, betas: tuple[float, float]) -> None:
        super().__init__(auto_prefix=False)
        self.fresh1, self.fresh2 = (Tensor(1.0 - beta, mstype.float32) for beta in betas)
        self.kernel = writing_kernel("adamw", lambda *_: (1,), lambda grad, *_: grad, num_read=2, num_written=3)

    def prepare(self, take: Tensor, scale: Tensor, rate: Tensor, eps: Tensor, keep: Tensor) -> Tensor:
        """What all parameters of one weight decay share.

        Args:
            take: () bool; false is a step that changes nothing.
            scale: () float32, gradients are multiplied by it.
            rate: () float32, learning rate with the correction of the bias.
            eps: () float32, with its correction.
            keep: () float32, parameters are multiplied by it.

        Returns:
            (7,) float32, the third argument of :meth:`construct`.
        """
        take = ops.cast(take, mstype.float32)
        return ops.stack((take, scale, rate, self.fresh1, self.fresh2, eps, keep))

    def construct(
        self, param: Parameter, moment1: Parameter, moment2: Parameter, grad: Tensor, factors: Tensor
    ) -> None:
        """Update a parameter and its moments.

        Args:
            param: float32.
            moment1: of its shape.
            moment2: of its shape.
            grad: of its shape.
            factors: from :meth:`prepare`.
        """
        self.kernel(grad, factors, param, moment1, moment2)
