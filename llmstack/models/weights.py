"""A model's parameters as numpy arrays under their structural names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from llmstack.errors import UserError

if TYPE_CHECKING:
    from mindspore import Parameter, nn


def export_arrays(model: nn.Cell, *, trained_only: bool = False) -> dict[str, np.ndarray]:
    """Copies of all parameters, a tied one once, by structural name.

    A name counts from ``model`` itself, whatever Cell was wrapped around it since.

    Args:
        model: any Cell.
        trained_only: leave out those no gradient is taken for.
    """
    return {name: np.array(parameter.asnumpy()) for name, parameter in _parameters(model, trained_only).items()}


def import_arrays(model: nn.Cell, arrays: Mapping[str, np.ndarray], *, source: str, trained_only: bool = False) -> None:
    """Set all parameters; nothing may be missing, left over or of another shape.

    Args:
        model: any Cell.
        arrays: structural name -> array, as :func:`export_arrays` gives them.
        source: where the arrays come from, for the message.
        trained_only: only those a gradient is taken for, the others stay.

    Raises:
        UserError: names or shapes differ; the message lists every difference and no parameter was changed.
    """
    from mindspore import Tensor

    parameters = _parameters(model, trained_only)
    check_match(
        {name: tuple(parameter.shape) for name, parameter in parameters.items()},
        {name: tuple(array.shape) for name, array in arrays.items()},
        source=source,
    )
    for name, parameter in parameters.items():
        parameter.set_data(Tensor(np.ascontiguousarray(arrays[name], dtype=np.float32)))


def share_parameters(view: nn.Cell, model: nn.Cell) -> None:
    """Let a model of the same architecture use another's Parameters: one set of weights for both.

    Args:
        view: gives its own Parameters up.
        model: owns the Parameters; they keep the names they have there.
    """
    owned = dict(model.parameters_and_names())
    for prefix, cell in view.cells_and_names():
        for attribute in list(cell._params):
            name = f"{prefix}.{attribute}" if prefix else attribute
            if name in owned:  # a tied matrix is listed once, under the first of its owners
                cell._params[attribute] = owned[name]
    embedding = getattr(getattr(view, "trunk", None), "embedding", None)
    if "head.weight" not in owned and embedding is not None:
        view.head.weight = embedding


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


def _parameters(model: nn.Cell, trained_only: bool) -> dict[str, Parameter]:
    return {name: p for name, p in model.parameters_and_names() if p.requires_grad or not trained_only}
