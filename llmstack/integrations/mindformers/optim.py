"""MindFormers' AdamW under the contract of our optimizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore import dtype as mstype

from llmstack.config.optim import OptimConfig
from llmstack.errors import UserError
from llmstack.integrations.mindformers.library import build_optim
from llmstack.optim.state import Targets, adam_targets, read_state, restore_state


class MindFormersAdamW(nn.Cell):
    """One step of MindFormers' AdamW (``use_fused=False``) on a fixed list of parameters.

    The formula is that of :class:`llmstack.optim.adamw.AdamW`, and so is the form of the state. MindFormers' Cell knows
    neither the clip nor a step that is skipped: it is given scaled gradients, zeros when they are not finite, and what
    it changed then is put back.

    Attributes:
        parameters: the trained parameters, in the order of the gradients.

    Args:
        params: trainable float32 parameters, each with its own name.
        config: betas, eps and weight_decay are used; ``lr`` comes in with every step.

    Raises:
        UserError: no parameter, one that is not float32, or a beta of 0.
    """

    def __init__(self, params: Sequence[Parameter], config: OptimConfig) -> None:
        super().__init__(auto_prefix=False)
        params = list(params)
        _check(params, config)
        self.parameters = ParameterTuple(params)
        self.optimizer = build_optim(
            class_name="AdamW",
            use_fused=False,
            params=_groups(params, config.weight_decay),
            # a number makes it a Parameter, which each step sets
            learning_rate=config.lr,
            betas=config.betas,
            eps=config.eps,
        )
        self.moments1, self.moments2 = self.optimizer.exp_avg, self.optimizer.exp_avg_sq
        self.step, self.rate = self.optimizer.global_step, self.optimizer.learning_rate
        self.changed = ParameterTuple([*self.parameters, *self.moments1, *self.moments2, self.step])
        self.assign = ops.Assign()
        self.select = ops.Select()
        self.zeros_like = ops.ZerosLike()

    def construct(self, lr: Tensor, grads: tuple[Tensor, ...], scale: Tensor, finite: Tensor) -> Tensor:
        """Updates every parameter, both moments and the step, or nothing.

        Args:
            lr: float32 (), learning rate of this step.
            grads: float32 gradients in the order and shapes of ``parameters``.
            scale: float32 (), multiplies the gradients.
            finite: bool (), false to change nothing; gradients may be anything then.

        Returns:
            The number of steps taken so far, int32 ().
        """
        kept = ()
        for i in range(len(self.changed)):
            kept = kept + (self.changed[i].value(),)
        scaled = ()
        for grad in grads:
            scaled = scaled + (self.select(finite, grad * scale, self.zeros_like(grad)),)
        self.assign(self.rate, lr)
        self.optimizer(scaled)
        for i in range(len(self.changed)):
            self.assign(self.changed[i], self.select(finite, self.changed[i], kept[i]))
        return ops.reshape(self.step, ())

    def state(self) -> dict[str, np.ndarray]:
        """Copies the optimizer's state to the host.

        Returns:
            ``step`` int32 (), and ``m.<parameter>`` and ``v.<parameter>`` float32 for every parameter.
        """
        return read_state(self._targets())

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Puts a state back, also that of another AdamW on the same parameters.

        Args:
            arrays: exactly the names and shapes that :meth:`state` gives.

        Raises:
            UserError: a name is missing or unexpected, or a shape differs.
        """
        restore_state(self._targets(), arrays)

    def _targets(self) -> Targets:
        return adam_targets(self.step, self.parameters, self.moments1, self.moments2)


def _check(params: list[Parameter], config: OptimConfig) -> None:
    if not params:
        raise UserError("optim: expected parameters to train, got none. Unfreeze a part of the model.")
    for param in params:
        if param.dtype != mstype.float32:
            raise UserError(f"optim: expected float32 parameters, got {param.name} in {param.dtype}. Train in float32.")
    if min(config.betas) <= 0.0:
        raise UserError(
            f"optim.betas: expected decay rates above 0, which MindFormers' AdamW needs, got {list(config.betas)}. "
            "Raise them, or write `name: adamw`."
        )


def _groups(params: list[Parameter], weight_decay: float) -> list[dict[str, object]]:
    """Matrices decay, vectors do not; each group says so itself, or it would take the optimizer's."""
    groups: list[dict[str, object]] = []
    for decays in (True, False):
        chosen = [param for param in params if (param.ndim >= 2) == decays]
        if chosen:
            groups.append({"params": chosen, "weight_decay": weight_decay if decays else 0.0})
    return [*groups, {"order_params": params}]
