"""The compiled kernels as differentiable graph operators.

Each class is a plain callable to be made in a Cell's ``__init__`` and called in its ``construct``; the composite cells
of ``llmstack.nn`` with the same meaning are the reference the tests hold them to. No gradient flows to rotary tables,
segments or temperatures.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from mindspore import Tensor, ops

from llmstack.nn.native.build import library


def _kernel(name: str, shapes: Callable, dtypes: Callable, bprop: Callable | None = None) -> ops.Custom:
    return ops.Custom(f"{library()}:{name}", out_shape=shapes, out_dtype=dtypes, func_type="aot", bprop=bprop)


def _first(*inputs: Any) -> Any:
    """The shape or dtype of the first input."""
    return inputs[0]


def _first_two(*inputs: Any) -> Any:
    return inputs[0], inputs[1]


class NativeRmsNorm:
    """``x / sqrt(mean(x^2) + eps) * weight`` (Zhang & Sennrich 2019, equation 4).

    Inputs: ``x_ND`` and ``weight_D`` float32. Output: ``y_ND``.
    """

    def __init__(self, eps: float) -> None:
        self.eps = Tensor(np.array([eps], np.float32))
        self.backward = _kernel("rms_norm_grad", _first_two, _first_two)
        self.forward = _kernel("rms_norm", _first, _first, self._bprop)

    def _bprop(self, x: Tensor, weight: Tensor, eps: Tensor, out: Tensor, dout: Tensor) -> tuple:
        dx, dweight = self.backward(x, weight, eps, dout)
        return dx, dweight, ops.zeros_like(eps)

    def __call__(self, x: Tensor, weight: Tensor) -> Tensor:
        """Normalise each row."""
        return self.forward(x, weight, self.eps)


def _half_width(gate_up: Any) -> Any:
    return gate_up[0], gate_up[1] // 2


class NativeSwiGlu:
    """``silu(gate) * up`` (Shazeer 2020, equation 6), gate and up the halves of a row.

    Input: ``gate_up_N(2F)`` float32. Output: ``h_NF``.
    """

    def __init__(self) -> None:
        self.backward = _kernel("swiglu_grad", _first, _first)
        self.forward = _kernel("swiglu", _half_width, _first, self._bprop)

    def _bprop(self, gate_up: Tensor, out: Tensor, dout: Tensor) -> tuple:
        return (self.backward(gate_up, dout),)

    def __call__(self, gate_up: Tensor) -> Tensor:
        """Gate each row."""
        return self.forward(gate_up)


def _three_rows(logits: Any, labels: Any, temperature: Any) -> Any:
    return labels, labels, labels


def _three_like_logits(logits: Any, labels: Any, temperature: Any) -> Any:
    return logits, logits, logits


class NativeTokenNll:
    """Negative log-likelihood, log-partition and entropy of rows of ``logits / temperature``.

    Inputs: ``logits_NV`` float32, ``labels_N`` int32 (out of range counts as 0: mask it), ``temperature_1`` float32.
    Outputs: ``nll_N``, ``lse_N``, ``entropy_N`` float32 in nats, each differentiable in the logits.
    """

    def __init__(self) -> None:
        self.backward = _kernel("token_nll_grad", _first, _first)
        self.forward = _kernel("token_nll", _three_rows, _three_like_logits, self._bprop)

    def _bprop(self, logits: Tensor, labels: Tensor, temperature: Tensor, out: tuple, dout: tuple) -> tuple:
        dlogits = self.backward(logits, labels, temperature, out[1], out[2], dout[0], dout[1], dout[2])
        return dlogits, ops.zeros_like(labels), ops.zeros_like(temperature)

    def __call__(self, logits: Tensor, labels: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One value of each kind a row."""
        return self.forward(logits, labels, temperature)


class NativeAttention:
    """Causal grouped-query attention straight from the fused projection, rotary positions included.

    ``softmax(rope(q) rope(k)^T / sqrt(E)) v`` over the keys of a query's own segment up to itself (Vaswani et al. 2017,
    equation 1; Su et al. 2021, equation 34, pairs (i, i + E/2)). The backward pass recomputes the probabilities from
    their saved log-partition (Dao et al. 2022, algorithm 4), so that no (T, T) array is kept.

    Inputs: ``qkv_N((H+2K)E)`` (a row holds all q heads, then k, then v), ``cos_N(E/2)``, ``sin_N(E/2)`` float32,
    ``segments_BT`` int32. Output: ``out_N(HE)``.
    """

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        self.heads = Tensor(np.array([num_heads, num_kv_heads], np.int32))
        width = num_heads * head_dim

        def shapes(qkv: Any, cos: Any, sin: Any, segments: Any, heads: Any) -> Any:
            return (qkv[0], width), (qkv[0], num_heads)

        self.backward = _kernel("attention_grad", _first, _first)
        self.forward = _kernel("attention", shapes, lambda qkv, *_: (qkv, qkv), self._bprop)

    def _bprop(self, qkv, cos, sin, segments, heads, out, dout) -> tuple:  # noqa: ANN001, PLR0913
        dqkv = self.backward(qkv, cos, sin, segments, heads, out[0], out[1], dout[0])
        return dqkv, ops.zeros_like(cos), ops.zeros_like(sin), ops.zeros_like(segments), ops.zeros_like(heads)

    def __call__(self, qkv: Tensor, cos: Tensor, sin: Tensor, segments: Tensor) -> Tensor:
        """Attend within each row of the batch."""
        return self.forward(qkv, cos, sin, segments, self.heads)[0]
