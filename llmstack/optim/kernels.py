"""Chooses, when a Cell is built, how the operations that only an optimizer step has are computed here.

The counterpart of :mod:`llmstack.nn.kernels`: compiled kernels on a CPU that has them, else plain operators.
"""

from __future__ import annotations

from mindspore import nn

from llmstack.nn import kernels
from llmstack.optim import composed, native


def sum_of_squares() -> nn.Cell:
    """A Cell ``grad -> (1,)``, the sum of its squares."""
    return native.NativeSumOfSquares() if kernels.has_native() else composed.ComposedSumOfSquares()


def adam_update(betas: tuple[float, float]) -> nn.Cell:
    """One parameter's step: ``prepare(take, scale, rate, eps, keep)``, then ``(param, m, v, grad, factors)``.

    Args:
        betas: decay rates of the two moments.
    """
    return native.NativeAdamUpdate(betas) if kernels.has_native() else composed.ComposedAdamUpdate(betas)
