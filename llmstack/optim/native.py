"""The operations of an optimizer step as compiled CPU kernels, with the interfaces of :mod:`llmstack.optim.composed`.

A step is bound by memory: the clip, the decay, both moments and the weight are one pass instead of six. All parameters
are one operator: the time a graph takes to compile grows with the square of the operators that write.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mindspore import ParameterTuple, Tensor, nn, ops
from mindspore import dtype as mstype

from llmstack.nn.native.custom import kernel, writing_kernel


class NativeSumOfSquares(nn.Cell):
    """``sum_i sum(g_i^2)``, in float32 within pieces of 16384 numbers and in float64 over them."""

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.kernel = kernel("sum_of_squares", lambda *_: (1,), lambda grad, *_: grad)

    def construct(self, grads: tuple[Tensor, ...]) -> Tensor:
        """Sum.

        Args:
            grads: float32 of any shapes.

        Returns:
            (1,) float32.
        """
        return self.kernel(*grads)


class NativeAdamUpdate(nn.Cell):
    """AdamW of a list of parameters in one pass over each.

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
        self.decayed = Tensor(np.array(decayed, np.int32))
        self.fresh1, self.fresh2 = (Tensor(1.0 - beta, mstype.float32) for beta in betas)
        count = len(parameters)
        self.kernel = writing_kernel(
            "adamw", lambda *_: (1,), lambda factors, *_: factors, num_read=2 + count, num_written=3 * count
        )

    def construct(
        self, grads: tuple[Tensor, ...], take: Tensor, factors: tuple[Tensor, Tensor, Tensor, Tensor]
    ) -> None:
        """Update the parameters and their moments.

        Args:
            grads: in the order and shapes of the parameters.
            take: () bool; false is a step that changes nothing.
            factors: () float32 each: what gradients are multiplied by, the rate and eps with their corrections of the
                bias, and what decaying parameters are multiplied by.
        """
        scale, rate, eps, keep = factors
        packed = ops.stack((ops.cast(take, mstype.float32), scale, rate, self.fresh1, self.fresh2, eps, keep))
        self.kernel(packed, self.decayed, *grads, *self.parameters, *self.moments1, *self.moments2)


class NativeBuffers(nn.Cell):
    """Sums of gradients over micro-batches, all of them one operator.

    Args:
        buffers: float32, one for every trained parameter.
    """

    def __init__(self, buffers: ParameterTuple) -> None:
        super().__init__(auto_prefix=False)
        self.buffers = buffers
        count = len(buffers)
        self.add = writing_kernel(
            "add_to_buffers", lambda *_: (1,), lambda grad, *_: grad, num_read=count, num_written=count
        )
        self.zero = writing_kernel(
            "clear_buffers", lambda *_: (1,), lambda after, *_: after, num_read=1, num_written=count
        )

    def construct(self, grads: tuple[Tensor, ...]) -> None:
        """Add gradients.

        Args:
            grads: in the order and shapes of the buffers.
        """
        self.add(*grads, *self.buffers)

    def clear(self, after: Tensor) -> None:
        """Set the sums to 0.

        Args:
            after: (1,) float32, computed from what has read them.
        """
        self.zero(after, *self.buffers)
