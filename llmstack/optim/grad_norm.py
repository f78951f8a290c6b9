"""The global norm of a list of gradients (Pascanu et al. 2013, algorithm 1)."""

from mindspore import Tensor, nn, ops

from llmstack.optim.kernels import sum_of_squares


class GlobalNorm(nn.Cell):
    """``sqrt(sum_i sum(g_i^2))`` over every gradient."""

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.sum_of_squares = sum_of_squares()

    def construct(self, grads: tuple[Tensor, ...]) -> Tensor:
        """Computes the norm.

        Args:
            grads: float32 tensors of any shape.

        Returns:
            The norm, float32 (); inf or nan when a gradient holds one or a square overflows.
        """
        return ops.sqrt(ops.reshape(self.sum_of_squares(grads), ()))
