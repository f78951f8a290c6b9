"""A model of ours that follows the weights of a MindFormers network, on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops

from llmstack.config.model import ModelConfig
from llmstack.integrations.mindformers.weights import from_mindformers
from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel
from llmstack.models.weights import export_arrays
from llmstack.registry import MODELS

M = TypeVar("M", CausalLM, ScalarModel)


def stored_arrays(model: CausalLM | ScalarModel) -> dict[str, np.ndarray]:
    """A model's weights under Hugging Face's names.

    Args:
        model: a model of ours.
    """
    arrays = export_arrays(model)
    stored: dict[str, np.ndarray] = {}
    for weight in MODELS.get(model.config.family).weight_maps(model.config):
        if weight.name in arrays:
            cuts = np.cumsum(weight.rows)[:-1]
            stored.update(zip(weight.stored, np.split(arrays[weight.name], cuts), strict=True))
    return stored


def stored_shapes(model: CausalLM | ScalarModel) -> dict[str, tuple[int, ...]]:
    """The shapes of a model's weights under Hugging Face's names; the weights need not be there yet.

    Args:
        model: a model of ours.
    """
    parameters = dict(model.parameters_and_names())
    return {
        stored: (rows, *parameters[weight.name].shape[1:])
        for weight in MODELS.get(model.config.family).weight_maps(model.config)
        if weight.name in parameters
        for stored, rows in zip(weight.stored, weight.rows, strict=True)
    }


class CopyRows(nn.Cell):
    """Copies parameters into others, some with their rows in another order, as one graph without the host.

    Args:
        sources: what is copied.
        targets: what is overwritten.
        orders: for each target which row of its source each of its rows is; None keeps the order.
    """

    def __init__(self, sources: list[Parameter], targets: list[Parameter], orders: list[np.ndarray | None]) -> None:
        super().__init__(auto_prefix=False)
        self.sources, self.targets = ParameterTuple(sources), ParameterTuple(targets)
        self.reorders = tuple(order is not None for order in orders)
        self.orders = tuple(Tensor(np.zeros(1, np.int32) if o is None else o.astype(np.int32)) for o in orders)
        self.gather = ops.Gather()
        self.assign = ops.Assign()

    def construct(self) -> Tensor:
        """Copy.

        Returns:
            The first order, which nobody reads: a graph has to return something.
        """
        for i in range(len(self.targets)):
            value = self.gather(self.sources[i], self.orders[i], 0) if self.reorders[i] else self.sources[i].value()
            self.assign(self.targets[i], value)
        return self.orders[0]


class Twin(Generic[M]):
    """A model of ours and the network it follows. Not a Cell: its weights are no weights of the network's owner.

    Args:
        model: follows.
        gpt: MindFormers' network.
        heads: parameters beside the network, by Hugging Face name.
    """

    def __init__(self, model: M, gpt: Any, *, heads: Mapping[str, Parameter] | None = None) -> None:
        self._model = model
        # both sides of the copy are in one graph, which tells parameters apart by name
        model.update_parameters_name("twin.")
        sources = dict(gpt.parameters_and_names()) | dict(heads or {})
        origins = row_origins({name: tuple(source.shape) for name, source in sources.items()}, model.config)
        targets = dict(model.parameters_and_names())
        maps = {weight.name: weight for weight in MODELS.get(model.config.family).weight_maps(model.config)}
        found, orders = [], []
        for name in targets:
            parts = [origins[stored] for stored in maps[name].stored]
            rows = np.concatenate([part_rows for _, part_rows in parts])
            found.append(sources[parts[0][0]])
            orders.append(None if np.array_equal(rows, np.arange(len(rows))) else rows)
        self._copy = CopyRows(found, list(targets.values()), orders)

    def refresh(self) -> M:
        """The model, after it took the network's weights of now."""
        self._copy()
        return self._model


def row_origins(shapes: Mapping[str, tuple[int, ...]], config: ModelConfig) -> dict[str, tuple[str, np.ndarray]]:
    """Where each row of each stored tensor is found in a MindFormers network.

    Args:
        shapes: MindFormers name -> shape.
        config: the model's sizes.

    Returns:
        Hugging Face name -> MindFormers name and (rows,) int64, the row of it that each row of the tensor is.
    """
    origins: dict[str, tuple[str, np.ndarray]] = {}
    for name, shape in shapes.items():
        for stored, rows in from_mindformers({name: np.arange(shape[0])}, config).items():
            origins[stored] = (name, rows)
    return origins
