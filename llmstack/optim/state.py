"""An optimizer's state in and out, under names that do not depend on which optimizer it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mindspore import Parameter, Tensor

from llmstack.errors import UserError

Targets = Mapping[str, tuple[Parameter, tuple[int, ...]]]
"""Name in a state -> its Parameter, and the shape it has in the state."""


def adam_targets(
    step: Parameter,
    parameters: Sequence[Parameter],
    moments1: Sequence[Parameter],
    moments2: Sequence[Parameter],
) -> Targets:
    """What the state of an Adam holds.

    Args:
        step: optimizer steps taken, one number.
        parameters: the trained parameters.
        moments1: of each of them.
        moments2: of each of them.

    Returns:
        ``step``, and ``m.<parameter>`` and ``v.<parameter>`` for every parameter.
    """
    targets: dict[str, tuple[Parameter, tuple[int, ...]]] = {"step": (step, ())}
    for param, first, second in zip(parameters, moments1, moments2, strict=True):
        targets[f"m.{param.name}"] = (first, tuple(param.shape))
        targets[f"v.{param.name}"] = (second, tuple(param.shape))
    return targets


def read_state(targets: Targets) -> dict[str, np.ndarray]:
    """Copies a state to the host.

    Args:
        targets: what it holds.
    """
    return {name: target.asnumpy().copy().reshape(shape) for name, (target, shape) in targets.items()}


def restore_state(targets: Targets, arrays: Mapping[str, np.ndarray]) -> None:
    """Puts a state back.

    Args:
        targets: what it holds.
        arrays: exactly the names and shapes that :func:`read_state` gives.

    Raises:
        UserError: a name is missing or unexpected, or a shape differs; nothing was changed.
    """
    wrong = sorted(targets.keys() ^ arrays.keys())
    wrong += sorted(n for n in targets.keys() & arrays.keys() if targets[n][1] != arrays[n].shape)
    if wrong:
        raise UserError(
            f"optimizer state: expected {len(targets)} arrays for the trained parameters, got a state that differs in "
            f"{', '.join(wrong[:5])}{' ...' if len(wrong) > 5 else ''}. Start the stage afresh."
        )
    for name, (target, _) in targets.items():
        target.set_data(Tensor(np.ascontiguousarray(arrays[name]).reshape(target.shape), target.dtype))
