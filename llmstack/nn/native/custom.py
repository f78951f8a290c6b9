"""Functions of the compiled library as operators of a graph."""

from __future__ import annotations

from collections.abc import Callable

from mindspore import ops
from mindspore.ops import signature

from llmstack.nn.native.build import library


def kernel(name: str, shapes: Callable | tuple, dtypes: Callable | tuple, bprop: Callable | None = None) -> ops.Custom:
    """An operator.

    Args:
        name: of the function in the library.
        shapes: of the outputs, from the inputs' shapes.
        dtypes: of the outputs, from the inputs' dtypes.
        bprop: its gradient, ``(*inputs, outputs, gradients of the outputs) -> gradients of the inputs``.
    """
    return ops.Custom(f"{library()}:{name}", out_shape=shapes, out_dtype=dtypes, func_type="aot", bprop=bprop)


def writing_kernel(
    name: str, shapes: Callable | tuple, dtypes: Callable | tuple, *, num_read: int, num_written: int
) -> ops.Custom:
    """An operator that writes into Parameters, so that the graph keeps its place among their other readers.

    Args:
        name: of the function in the library.
        shapes: of the outputs, from the inputs' shapes.
        dtypes: of the outputs, from the inputs' dtypes.
        num_read: the first inputs, which are only read.
        num_written: the inputs after them, Parameters that are written.
    """
    operator = kernel(name, shapes, dtypes)
    read = [signature.make_sig(f"input_{i}") for i in range(num_read)]
    written = [signature.make_sig(f"written_{i}", signature.sig_rw.RW_WRITE) for i in range(num_written)]
    operator.set_signatures((*read, *written))
    operator.add_prim_attr("side_effect_mem", True)
    return operator
