"""AdamW: Adam with bias correction and decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2)."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore import dtype as mstype

from llmstack.config.optim import OptimConfig
from llmstack.errors import UserError
from llmstack.optim.kernels import adam_update
from llmstack.optim.state import Targets, adam_targets, read_state, restore_state

_MAX_TABLE_STEPS = 2**22


def bias_correction_table(betas: tuple[float, float]) -> np.ndarray:
    """Tabulates the two factors that correct Adam's bias, for every step at which they still differ from 1.

    ``1 - beta^t`` loses up to four digits when computed in float32 at the first steps (beta 0.999, t 1: 6e-5), and the
    exp kernels are no better, so the factors come from float64 and are looked up.

    Args:
        betas: decay rates of the first and second moment.

    Returns:
        float32 (S, 2). Row t holds ``sqrt(1 - beta2^t) / (1 - beta1^t)`` and ``sqrt(1 - beta2^t)``; the last row is the
        limit and serves every later step; row 0 serves a skipped first step.

    Raises:
        UserError: a beta so near 1 that the table would not fit in memory.
    """
    slowest = max(betas)
    steps = 2 if slowest < 1e-8 else math.ceil(math.log(2.0**-26) / math.log(slowest)) + 2
    if steps > _MAX_TABLE_STEPS:
        raise UserError(
            f"optim.betas: expected decay rates of at most {1 - 18 / _MAX_TABLE_STEPS:.6f}, got {slowest}. "
            "Choose smaller ones: such a moment never warms up."
        )
    step = np.arange(steps, dtype=np.float64)[:, None]
    corrections = 1.0 - np.asarray(betas, np.float64) ** np.maximum(step, 1.0)
    root = np.sqrt(corrections[:, 1])
    return np.stack([root / corrections[:, 0], root], axis=1).astype(np.float32)


def zeros_beside(parameters: ParameterTuple, prefix: str) -> ParameterTuple:
    """Makes a zero parameter for each given one, e.g. a moment.

    Clones, because a clone follows the layout of its original when that is split over several devices.

    Args:
        parameters: the originals.
        prefix: put before their names, with a dot.

    Returns:
        Parameters of the same shapes and dtypes that no gradient is taken for.
    """
    zeros = parameters.clone(prefix=prefix, init="zeros")
    for zero in zeros:
        zero.requires_grad = False
    return zeros


class AdamW(nn.Cell):
    """One AdamW step on a fixed list of parameters.

    For step t, gradient g, rate lr and decay w (0 for parameters of fewer than two dimensions: norms and biases)::

        m = beta1 m + (1 - beta1) g                 v = beta2 v + (1 - beta2) g^2
        p = (1 - lr w) p - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)

    The kernels compute ``p -= a m / (sqrt(v) + e)``, which is the same with
    ``a = lr sqrt(1 - beta2^t) / (1 - beta1^t)`` and ``e = eps sqrt(1 - beta2^t)``.

    Attributes:
        parameters: the trained parameters, in the order of the gradients.
        step: int32 (), optimizer steps taken.

    Args:
        params: trainable float32 parameters, each with its own name.
        config: betas, eps and weight_decay are used; ``lr`` comes in with every step.

    Raises:
        UserError: no parameter, one that is not float32, or a beta too near 1.
    """

    def __init__(self, params: Sequence[Parameter], config: OptimConfig) -> None:
        super().__init__(auto_prefix=False)
        params = list(params)
        if not params:
            raise UserError("optim: expected parameters to train, got none. Unfreeze a part of the model.")
        for param in params:
            if param.dtype != mstype.float32:
                raise UserError(
                    f"optim: expected float32 parameters, got {param.name} in {param.dtype}. Train in float32."
                )
        self.parameters = ParameterTuple(params)
        self.moments1 = zeros_beside(self.parameters, "optimizer.m")
        self.moments2 = zeros_beside(self.parameters, "optimizer.v")
        self.step = Parameter(Tensor(0, mstype.int32), name="optimizer.step", requires_grad=False)
        self.decays = tuple(config.weight_decay if p.ndim >= 2 else 0.0 for p in params)
        table = bias_correction_table(config.betas)
        self.corrections = Tensor(table)
        self.last_row = len(table) - 1
        self.eps = config.eps
        self.weight_decay = config.weight_decay
        decayed = [decay > 0.0 for decay in self.decays]
        self.update = adam_update(config.betas, self.parameters, self.moments1, self.moments2, decayed)
        self.assign = ops.Assign()
        self.minimum = ops.Minimum()
        self.cast = ops.Cast()

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
        step = self.step + self.cast(finite, mstype.int32)
        self.assign(self.step, step)
        correction = self.corrections[self.minimum(step, self.last_row)]
        factors = (scale, lr * correction[0], self.eps * correction[1], 1.0 - lr * self.weight_decay)
        self.update(grads, finite, factors)
        return step

    def decayed_names(self) -> tuple[str, ...]:
        """Names of the parameters that weight decay applies to."""
        return tuple(p.name for p, decay in zip(self.parameters, self.decays, strict=True) if decay > 0.0)

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
