"""Chooses, when a Cell is built, how the operations that only an optimizer step has are computed here.

The counterpart of :mod:`llmstack.nn.kernels`: compiled kernels on a CPU that has them, else plain operators.
"""

from __future__ import annotations

from collections.abc import Sequence

from mindspore import ParameterTuple, nn

from llmstack.nn import kernels
from llmstack.optim import composed, native


def sum_of_squares() -> nn.Cell:
    """A Cell ``grads -> (1,)``, the sum of all their squares."""
    return native.NativeSumOfSquares() if kernels.has_native() else composed.ComposedSumOfSquares()


def adam_update(
    betas: tuple[float, float],
    parameters: ParameterTuple,
    moments1: ParameterTuple,
    moments2: ParameterTuple,
    decayed: Sequence[bool],
) -> nn.Cell:
    """A Cell ``(grads, take, factors)`` that updates all parameters and moments.

    Args:
        betas: decay rates of the two moments.
        parameters: float32, trained.
        moments1: of their shapes.
        moments2: of their shapes.
        decayed: for each parameter, whether its weight decays.
    """
    update = native.NativeAdamUpdate if kernels.has_native() else composed.ComposedAdamUpdate
    return update(betas, parameters, moments1, moments2, decayed)


def buffers(parameters: ParameterTuple) -> nn.Cell:
    """A Cell that adds ``grads`` to Parameters, with ``clear(after)`` to set them to 0.

    Args:
        parameters: the sums.
    """
    return (native.NativeBuffers if kernels.has_native() else composed.ComposedBuffers)(parameters)
