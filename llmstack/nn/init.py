"""Initial weights, drawn with numpy so that a seed gives the same model on every machine and device."""

from __future__ import annotations

import zlib

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore.common.initializer import initializer

from llmstack.config.model import ModelConfig

RESIDUAL_OUTPUTS = ("attention.out.weight", "mlp.down.weight")
BIAS = ".bias"
SCORE_WEIGHT = "score.weight"


def blank_parameter(name: str, shape: tuple[int, ...], *, fill: str = "zeros") -> Parameter:
    """A trainable float32 Parameter that holds its place until it is initialised or loaded; no operator runs.

    Args:
        name: its name within the Cell.
        shape: its shape.
        fill: ``zeros`` or ``ones``.
    """
    return Parameter(initializer(fill, shape, ms.float32), name=name)


def initial_std(name: str, config: ModelConfig) -> float:
    """Standard deviation of one weight matrix.

    The matrices that write to the residual stream are divided by sqrt(2 L), so that its variance does not grow with
    depth (Radford et al. 2019, section 2.3). A scalar head starts at 1/(D+1): scores near zero, gradients not.

    Args:
        name: structural name of the parameter, e.g. ``trunk.blocks.0.mlp.down.weight``.
        config: the model's sizes.
    """
    if name == SCORE_WEIGHT:
        return 1.0 / (config.hidden_size + 1)
    if name.endswith(RESIDUAL_OUTPUTS):
        return config.initializer_range / float(np.sqrt(2 * config.num_hidden_layers))
    return config.initializer_range


def initial_array(name: str, shape: tuple[int, ...], *, config: ModelConfig, seed: int) -> np.ndarray:
    """The initial value of one parameter: zeros for a bias, ones for a norm, a normal draw for a matrix.

    Each parameter has its own stream, keyed by seed and name: models that share a trunk share its initial weights.

    Args:
        name: structural name of the parameter.
        shape: its shape.
        config: the model's sizes.
        seed: non-negative.

    Returns:
        ``shape`` float32.
    """
    if name.endswith(BIAS):
        return np.zeros(shape, np.float32)
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    stream = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return stream.standard_normal(shape, np.float32) * np.float32(initial_std(name, config))


def initialise(model: nn.Cell, config: ModelConfig, *, seed: int) -> None:
    """Set every parameter of a model to its initial value.

    Args:
        model: a CausalLM or ScalarModel.
        config: its sizes.
        seed: non-negative.
    """
    for name, parameter in model.parameters_and_names():
        parameter.set_data(Tensor(initial_array(name, tuple(parameter.shape), config=config, seed=seed)))
