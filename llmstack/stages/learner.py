"""An objective with its optimizer and its place in the learning-rate schedule."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from mindspore import Tensor, nn

from llmstack.config.optim import OptimConfig
from llmstack.nn.dropout import DropoutSeeds
from llmstack.optim.schedules import learning_rate
from llmstack.optim.updater import Updater, UpdateReport
from llmstack.registry import OPTIMIZERS


class Learner:
    """Takes optimizer steps and counts those that were not skipped.

    Args:
        objective: the Cell whose loss is descended.
        model: owns the parameters; all trainable ones are trained.
        optim: optimizer, clipping and schedule.
        accumulate: micro-batches of one optimizer step.
        noise_seed: of the model's dropouts; each micro-batch has noise of its own, and the same after a resume.
    """

    def __init__(
        self, objective: nn.Cell, model: nn.Cell, optim: OptimConfig, *, accumulate: int = 1, noise_seed: int = 0
    ) -> None:
        self._optim = optim
        self._dropouts, self._noise_seed = DropoutSeeds(model), noise_seed
        self._optimizer = OPTIMIZERS.get(optim.name)(model.trainable_params(), optim)
        self._updater = Updater(objective, self._optimizer, max_grad_norm=optim.max_grad_norm, accumulate=accumulate)
        self.steps = 0
        self.lr = 0.0

    def update(self, count: float, micro_batches: list[dict[str, np.ndarray]], total_steps: int) -> UpdateReport:
        """One optimizer step; a skipped one moves neither optimizer nor schedule.

        Args:
            count: what the loss is a mean over, in all micro-batches together; 0 gives a loss of 0.
            micro_batches: the objective's inputs by name, in its order.
            total_steps: optimizer steps of the whole stage.

        Returns:
            What the step did.
        """
        # a resumed or repeated last step keeps the schedule's end
        self.lr = learning_rate(self._optim, min(self.steps + 1, total_steps), total_steps)
        tensors = [tuple(Tensor(array) for array in batch.values()) for batch in micro_batches]
        report = self._updater(self.lr, 1.0 / max(count, 1.0), tensors, before_each=self._draw_noise)
        self._dropouts.off()
        self.steps += int(report.finite)
        return report

    def _draw_noise(self, micro_batch: int) -> None:
        self._dropouts.draw(self._noise_seed, self.steps, micro_batch)

    def state(self) -> dict[str, np.ndarray]:
        """Moments and step of the optimizer."""
        return self._optimizer.state()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Put a ``state`` back.

        Args:
            arrays: what ``state()`` gave.
        """
        self._optimizer.restore(arrays)
        self.steps = int(arrays["step"])
