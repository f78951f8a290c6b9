"""Run Cells on numpy arrays, with gradients, as one graph each."""

from __future__ import annotations

import contextlib

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


@contextlib.contextmanager
def eager():
    """Run operator by operator inside: much the faster way for a Cell that is called once."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        yield
    finally:
        ms.set_context(mode=ms.GRAPH_MODE)


def tensors(arrays):
    """Numpy arrays or numbers as Tensors; float64 becomes float32 and int64 int32."""
    narrow = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
    out = []
    for array in arrays:
        array = np.asarray(array)
        out.append(Tensor(np.ascontiguousarray(array.astype(narrow.get(array.dtype, array.dtype)))))
    return tuple(out)


def _numpy(value):
    return tuple(_numpy(v) for v in value) if isinstance(value, tuple) else value.asnumpy().copy()


def run(cell, *arrays):
    """``cell(*arrays)`` in numpy; a tuple when the Cell returns one."""
    return _numpy(cell(*tensors(arrays)))


class _Weighted(nn.Cell):
    """The sum of a Cell's outputs times given weights, and the outputs."""

    def __init__(self, cell, num_inputs):
        super().__init__()
        self.cell = cell
        self.num_inputs = num_inputs

    def construct(self, *args):
        outputs = self.cell(*args[: self.num_inputs])
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        total = ops.zeros((), ms.float32)
        for i in range(len(outputs)):
            total = total + ops.reduce_sum(outputs[i] * args[self.num_inputs + i])
        return total, outputs


class Differentiated:
    """A Cell with its gradients, compiled once a set of shapes.

    Args:
        cell: what to differentiate.
        num_inputs: how many inputs it takes.
        wrt: positions of the inputs to differentiate.
    """

    def __init__(self, cell, num_inputs, wrt=(0,)):
        self.names = [name for name, _ in cell.parameters_and_names()]
        weighted = _Weighted(cell, num_inputs)
        self.parameters = list(weighted.trainable_params())
        weights = self.parameters or None
        self.function = ms.value_and_grad(weighted, tuple(wrt) or None, weights, has_aux=True)
        self.has_inputs, self.has_parameters = bool(wrt), bool(self.parameters)

    def __call__(self, inputs, weights):
        """Differentiate ``sum_i sum(weights_i * outputs_i)``.

        Returns:
            (outputs, input gradients, parameter gradients by structural name), all numpy.
        """
        (_, outputs), gradients = self.function(*tensors(inputs), *tensors(weights))
        if self.has_inputs and self.has_parameters:
            of_inputs, of_parameters = gradients
        else:
            of_inputs, of_parameters = (gradients, ()) if self.has_inputs else ((), gradients)
        of_inputs = of_inputs if isinstance(of_inputs, tuple) else (of_inputs,)
        named = dict(zip(self.names, _numpy(tuple(of_parameters)), strict=True))
        return _numpy(outputs), _numpy(of_inputs), named


def differentiate(cell, inputs, weights, wrt=(0,)):
    """One call of :class:`Differentiated`."""
    return Differentiated(cell, len(inputs), wrt)(inputs, weights)
