"""One optimizer step as a compiled graph: gradients, clipping by the global norm, the finite check, the update.

An *objective* is a Cell whose ``construct(inv_count, *batch)`` returns ``(loss, *metrics)``: a tuple of float32
scalars, the loss first, always the same number of them. ``inv_count`` is 1 over the number of things the loss sums over
in all micro-batches together, so sums times ``inv_count`` add up to the mean over the whole batch, however ragged its
rows.

An *optimizer* is a Cell with ``parameters`` (a ParameterTuple) and ``construct(lr, grads, scale, finite) -> step``: it
multiplies the gradients by ``scale``, the clip; when ``finite`` is false they may be anything and nothing may change,
not even the step.
"""

from mindspore import ParameterTuple, Tensor, nn, ops

from llmstack.optim.adamw import zeros_beside
from llmstack.optim.grad_norm import GlobalNorm
from llmstack.optim.kernels import buffers


class ClippedUpdate(nn.Cell):
    """Measures the gradients and has the optimizer scale them to a global norm; a non-finite norm changes nothing.

    Args:
        optimizer: what updates the parameters.
        max_grad_norm: gradients longer than this are scaled down to it.
    """

    def __init__(self, optimizer: nn.Cell, *, max_grad_norm: float) -> None:
        super().__init__(auto_prefix=False)
        self.optimizer = optimizer
        self.global_norm = GlobalNorm()
        self.max_grad_norm = max_grad_norm

    def construct(self, lr: Tensor, grads: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Applies one update.

        Args:
            lr: float32 (), learning rate of this step.
            grads: float32 gradients in the order of the optimizer's parameters.

        Returns:
            ``(grad_norm, finite)``: the norm before clipping, float32 (), and whether it was finite, bool (). When it
            was not, parameters, moments and the optimizer's step are as before.
        """
        norm = self.global_norm(grads)
        finite = ops.isfinite(norm)
        # max(norm, limit) >= limit > 0: no epsilon, and exactly 1 when nothing is clipped
        scale = self.max_grad_norm / ops.maximum(norm, self.max_grad_norm)
        self.optimizer(lr, grads, scale, finite)
        return norm, finite


class TrainStep(nn.Cell):
    """A whole optimizer step from one batch, in one graph.

    Args:
        objective: gives the loss to descend, see the module's docstring.
        optimizer: updates its ``parameters``.
        max_grad_norm: limit of the gradients' global norm.
    """

    def __init__(self, objective: nn.Cell, optimizer: nn.Cell, *, max_grad_norm: float) -> None:
        super().__init__(auto_prefix=False)
        self.objective = objective
        self.update = ClippedUpdate(optimizer, max_grad_norm=max_grad_norm)
        self.gradients = ops.value_and_grad(objective, None, optimizer.parameters, has_aux=True)
        self.set_train()

    def construct(self, lr: Tensor, inv_count: Tensor, *batch: Tensor) -> tuple[Tensor, ...]:
        """Computes gradients and updates the parameters.

        Args:
            lr: float32 (), learning rate of this step.
            inv_count: float32 (), 1 over the count the loss is a mean over.
            batch: the objective's other inputs.

        Returns:
            ``(loss, grad_norm, finite, *metrics)``, all () float32 but ``finite`` bool.
        """
        outputs, grads = self.gradients(inv_count, *batch)
        norm, finite = self.update(lr, grads)
        return (outputs[0], norm, finite) + outputs[1:]


class GradStep(nn.Cell):
    """One micro-batch: adds its gradients to buffers.

    Attributes:
        buffers: the summed gradients, a Parameter for every trained parameter; zero after :class:`ApplyStep`.

    Args:
        objective: gives the loss to descend, see the module's docstring.
        parameters: what gradients are taken for.
    """

    def __init__(self, objective: nn.Cell, parameters: ParameterTuple) -> None:
        super().__init__(auto_prefix=False)
        self.objective = objective
        self.buffers = zeros_beside(parameters, "gradient")
        self.gradients = ops.value_and_grad(objective, None, parameters, has_aux=True)
        self.accumulator = buffers(self.buffers)
        self.set_train()

    def construct(self, inv_count: Tensor, *batch: Tensor) -> tuple[Tensor, ...]:
        """Adds the gradients of one micro-batch.

        Args:
            inv_count: float32 (), 1 over the count of all micro-batches together.
            batch: the objective's other inputs.

        Returns:
            ``(loss, *metrics)``, float32 () each: this micro-batch's share of the whole batch's.
        """
        outputs, grads = self.gradients(inv_count, *batch)
        self.accumulator(grads)
        return outputs


class ApplyStep(nn.Cell):
    """The update after the last micro-batch; leaves the buffers at zero, also when the step is skipped.

    Args:
        optimizer: updates its ``parameters``.
        sums: the buffers of :class:`GradStep`.
        max_grad_norm: limit of the gradients' global norm.
    """

    def __init__(self, optimizer: nn.Cell, sums: ParameterTuple, *, max_grad_norm: float) -> None:
        super().__init__(auto_prefix=False)
        self.update = ClippedUpdate(optimizer, max_grad_norm=max_grad_norm)
        self.sums = sums
        self.accumulator = buffers(sums)

    def construct(self, lr: Tensor) -> tuple[Tensor, Tensor]:
        """Applies the summed gradients.

        Args:
            lr: float32 (), learning rate of this step.

        Returns:
            ``(grad_norm, finite)`` as :class:`ClippedUpdate`.
        """
        grads: tuple[Tensor, ...] = ()
        for i in range(len(self.sums)):
            grads = grads + (self.sums[i].value(),)
        norm, finite = self.update(lr, grads)
        self.accumulator.clear(ops.reshape(norm, (1,)))
        return norm, finite
