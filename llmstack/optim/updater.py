"""The host's side of an optimizer step: one graph for a single batch, two for several micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mindspore import Tensor, nn
from mindspore import dtype as mstype

from llmstack.optim.train_step import ApplyStep, GradStep, TrainStep


@dataclass(frozen=True)
class UpdateReport:
    """What one optimizer step did.

    Attributes:
        loss: loss of the whole batch before the update.
        grad_norm: global norm of the gradients before clipping.
        finite: False when the gradients were not finite, so that nothing changed.
        metrics: the objective's metrics, summed over the micro-batches.
    """

    loss: float
    grad_norm: float
    finite: bool
    metrics: tuple[float, ...]


class Updater:
    """Takes optimizer steps for an objective, over one or several micro-batches a step.

    Args:
        objective: a Cell, ``construct(inv_count, *batch) -> (loss, *metrics)``; each of them adds up over
            micro-batches (a sum times ``inv_count``).
        optimizer: a Cell with ``parameters`` and ``construct(lr, grads, scale, finite)``.
        max_grad_norm: limit of the gradients' global norm.
        accumulate: micro-batches of one optimizer step.
    """

    def __init__(self, objective: nn.Cell, optimizer: nn.Cell, *, max_grad_norm: float, accumulate: int = 1) -> None:
        self.accumulate = accumulate
        if accumulate == 1:
            self._train_step = TrainStep(objective, optimizer, max_grad_norm=max_grad_norm)
        else:
            self._grad_step = GradStep(objective, optimizer.parameters)
            self._apply_step = ApplyStep(optimizer, self._grad_step.buffers, max_grad_norm=max_grad_norm)

    def __call__(
        self,
        lr: float,
        inv_count: float,
        micro_batches: Sequence[Sequence[Tensor]],
        *,
        before_each: Callable[[int], None] | None = None,
    ) -> UpdateReport:
        """Takes one optimizer step.

        Args:
            lr: learning rate of this step.
            inv_count: 1 over the count of all micro-batches together.
            micro_batches: ``accumulate`` tuples of the objective's inputs.
            before_each: called with the number of each micro-batch, from 0, before it is computed.

        Returns:
            What the step did.

        Raises:
            ValueError: another number of micro-batches than ``accumulate``.
        """
        if len(micro_batches) != self.accumulate:
            raise ValueError(f"micro_batches: expected {self.accumulate} of them, got {len(micro_batches)}.")
        rate, weight = Tensor(lr, mstype.float32), Tensor(inv_count, mstype.float32)
        before_each = before_each or (lambda _: None)
        if self.accumulate == 1:
            before_each(0)
            loss, norm, finite, *metrics = self._train_step(rate, weight, *micro_batches[0])
            return UpdateReport(_number(loss), _number(norm), bool(finite.asnumpy()), tuple(map(_number, metrics)))
        outputs = []
        for number, batch in enumerate(micro_batches):
            before_each(number)
            outputs.append([_number(x) for x in self._grad_step(weight, *batch)])
        loss_sum, *sums = (sum(column) for column in zip(*outputs, strict=True))
        norm, finite = self._apply_step(rate)
        return UpdateReport(loss_sum, _number(norm), bool(finite.asnumpy()), tuple(sums))


def _number(scalar: Tensor) -> float:
    return float(scalar.asnumpy())
