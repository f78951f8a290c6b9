"""A model's parameters as numpy arrays under their structural names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from mindspore import Tensor, nn

from llmstack.errors import UserError


def export_arrays(model: nn.Cell) -> dict[str, np.ndarray]:
    """Copies of all parameters, a tied one once, by structural name.

    A name counts from ``model`` itself, whatever Cell was wrapped around it since.

    Args:
        model: any Cell.
    """
    return {name: np.array(parameter.asnumpy()) for name, parameter in model.parameters_and_names()}


def import_arrays(model: nn.Cell, arrays: Mapping[str, np.ndarray], *, source: str) -> None:
    """Set all parameters; nothing may be missing, left over or of another shape.

    Args:
        model: any Cell.
        arrays: structural name -> array, as :func:`export_arrays` gives them.
        source: where the arrays come from, for the message.

    Raises:
        UserError: names or shapes differ; the message lists every difference and no parameter was changed.
    """
    parameters = dict(model.parameters_and_names())
    check_match(
        {name: tuple(parameter.shape) for name, parameter in parameters.items()},
        {name: tuple(array.shape) for name, array in arrays.items()},
        source=source,
    )
    for name, parameter in parameters.items():
        parameter.set_data(Tensor(np.ascontiguousarray(arrays[name], dtype=np.float32)))


def check_match(expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], *, source: str) -> None:
    """Refuse arrays that do not fit a model exactly.

    Args:
        expected: name -> shape that the model needs.
        found: name -> shape that there is.
        source: where they come from, for the message.

    Raises:
        UserError: they differ; the message lists missing and unexpected names and wrong shapes.
    """
    missing = sorted(set(expected) - set(found))
    unexpected = sorted(set(found) - set(expected))
    misshaped = [
        f"{name} {found[name]} instead of {expected[name]}"
        for name in sorted(set(expected) & set(found))
        if found[name] != expected[name]
    ]
    parts = [
        f"{label}: {', '.join(names)}"
        for label, names in (("missing", missing), ("unexpected", unexpected), ("wrong shape", misshaped))
        if names
    ]
    if parts:
        raise UserError(
            f"{source}: expected exactly the weights of the model, got {'; '.join(parts)}. "
            "Use a folder whose config.json fits the model, or change the model to fit it."
        )
