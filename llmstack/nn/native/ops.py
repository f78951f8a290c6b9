"""The compiled kernels as differentiable graph operators.

Their interfaces are those of :mod:`llmstack.nn.composed`, which the tests hold them to. No gradient flows to rotary
tables, segments or temperatures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, nn, ops

from llmstack.nn.native.custom import kernel


def _first(*inputs: Any) -> Any:
    """The shape or dtype of the first input."""
    return inputs[0]


def _first_two(*inputs: Any) -> Any:
    return inputs[0], inputs[1]


def _rows_by_outputs(rows: Any, weight: Any) -> Any:
    return rows[0], weight[0]


def _rows_by_inputs(rows: Any, weight: Any) -> Any:
    return rows[0], weight[1]


def _outputs_by_inputs(grad_rows: Any, rows: Any) -> Any:
    return grad_rows[1], rows[1]


class NativeLinear(nn.Cell):
    """x W^T, without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.backward_input = kernel("dense_grad_input", _rows_by_inputs, _first)
        self.backward_weight = kernel("dense_grad_weight", _outputs_by_inputs, _first)
        self.forward = kernel("dense", _rows_by_outputs, _first, self._bprop)

    def _bprop(self, rows: Tensor, weight: Tensor, out: Tensor, dout: Tensor) -> tuple:
        return self.backward_input(dout, weight), self.backward_weight(dout, rows)

    def construct(self, rows_NI: Tensor, weight_OI: Tensor) -> Tensor:
        """Project each row.

        Args:
            rows_NI: (N, I) float32.
            weight_OI: (O, I) float32.

        Returns:
            (N, O) float32.
        """
        return self.forward(rows_NI, weight_OI)


class NativeRmsNorm(nn.Cell):
    """x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019, equation 4).

    Args:
        eps: added to the mean square.
    """

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = Tensor(np.array([eps], np.float32))
        self.backward = kernel("rms_norm_grad", _first_two, _first_two)
        self.forward = kernel("rms_norm", _first, _first, self._bprop)

    def _bprop(self, x: Tensor, weight: Tensor, eps: Tensor, out: Tensor, dout: Tensor) -> tuple:
        dx, dweight = self.backward(x, weight, eps, dout)
        return dx, dweight, ops.zeros_like(eps)

    def construct(self, hidden_ND: Tensor, weight_D: Tensor) -> Tensor:
        """Normalise the last axis.

        Args:
            hidden_ND: (N, D) float32.
            weight_D: (D,) float32.

        Returns:
            (N, D) float32.
        """
        return self.forward(hidden_ND, weight_D, self.eps)


def _half_width(gate_up: Any) -> Any:
    return gate_up[0], gate_up[1] // 2


class NativeSwiGlu(nn.Cell):
    """silu(gate) * up (Shazeer 2020, equation 6)."""

    def __init__(self) -> None:
        super().__init__()
        self.backward = kernel("swiglu_grad", _first, _first)
        self.forward = kernel("swiglu", _half_width, _first, self._bprop)

    def _bprop(self, gate_up: Tensor, out: Tensor, dout: Tensor) -> tuple:
        return (self.backward(gate_up, dout),)

    def construct(self, gate_up: Tensor) -> Tensor:
        """Gate one half of the last axis with the other.

        Args:
            gate_up: (N, 2F) float32, gate then up.

        Returns:
            (N, F) float32.
        """
        return self.forward(gate_up)


def _three_rows(logits: Any, labels: Any, temperature: Any) -> Any:
    return labels, labels, labels


def _three_like_logits(logits: Any, labels: Any, temperature: Any) -> Any:
    return logits, logits, logits


class NativeTokenNll(nn.Cell):
    """-log softmax(z / T)[label], log sum exp(z / T) and the entropy of softmax(z / T), row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.backward = kernel("token_nll_grad", _first, _first)
        self.forward = kernel("token_nll", _three_rows, _three_like_logits, self._bprop)

    def _bprop(self, logits: Tensor, labels: Tensor, temperature: Tensor, out: tuple, dout: tuple) -> tuple:
        dlogits = self.backward(logits, labels, temperature, out[1], out[2], dout[0], dout[1], dout[2])
        return dlogits, ops.zeros_like(labels), ops.zeros_like(temperature)

    def construct(self, logits_NV: Tensor, labels_N: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Score each row's label.

        Args:
            logits_NV: (N, V) float32.
            labels_N: (N,) int32; an id out of range counts as 0.
            temperature: (1,) float32, T > 0.

        Returns:
            ``(nll_N, lse_N, entropy_N)``: (N,) float32 each, in nats, all differentiable in the logits.
        """
        return self.forward(logits_NV, labels_N, temperature)


class NativeAttention(nn.Cell):
    """softmax(rope(q) rope(k)^T / sqrt(E)) v over the keys of a query's own segment, up to itself.

    Vaswani et al. 2017, equation 1; Su et al. 2021, equation 34, pairs (i, i + E/2). The backward pass recomputes the
    probabilities from their saved log-partition (Dao et al. 2022, algorithm 4): no (T, T) array is ever kept.

    Args:
        num_heads: query heads H.
        num_kv_heads: key/value heads K.
        head_dim: head width E.
        window: tokens a query sees, itself included; None: all before it.
    """

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int, window: int | None = None) -> None:
        super().__init__()
        self.heads = Tensor(np.array([num_heads, num_kv_heads, window or np.iinfo(np.int32).max], np.int32))
        width = num_heads * head_dim

        def shapes(qkv: Any, cos: Any, sin: Any, segments: Any, heads: Any) -> Any:
            return (qkv[0], width), (qkv[0], num_heads)

        self.backward = kernel("attention_grad", _first, _first)
        self.forward = kernel("attention", shapes, lambda qkv, *_: (qkv, qkv), self._bprop)

    def _bprop(self, qkv, cos, sin, segments, heads, out, dout) -> tuple:  # noqa: ANN001, PLR0913
        dqkv = self.backward(qkv, cos, sin, segments, heads, out[0], out[1], dout[0])
        return dqkv, ops.zeros_like(cos), ops.zeros_like(sin), ops.zeros_like(segments), ops.zeros_like(heads)

    def construct(self, qkv: Tensor, cos: Tensor, sin: Tensor, segments_BT: Tensor) -> Tensor:
        """Attend within each row of the batch.

        Args:
            qkv: (B*T, (H+2K)*E) float32, queries then keys then values.
            cos: (B*T, E/2) float32, cosines of each token's angles.
            sin: (B*T, E/2) float32, sines.
            segments_BT: (B, T) int32, document of each token, 0 for padding: this kernel's own form of the mask.

        Returns:
            (B*T, H*E) float32.
        """
        return self.forward(qkv, cos, sin, segments_BT, self.heads)[0]


class NativeDropout(nn.Cell):
    """Zeroes numbers by a hash of their place and a seed: the finaliser of MurmurHash3 (Appleby 2011).

    Args:
        rate: share of numbers that are zeroed.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.threshold = Tensor(np.array([round(rate * 2**31)], np.int32))
        self.kept_scale = Tensor(np.array([1.0 / (1.0 - rate)], np.float32))
        self.backward = kernel("seeded_dropout", _first, _first)
        self.forward = kernel("seeded_dropout", _first, _first, self._bprop)

    def _bprop(self, rows, seed, threshold, scale, out, dout) -> tuple:  # noqa: ANN001, PLR0913
        drows = self.backward(dout, seed, threshold, scale)
        return drows, ops.zeros_like(seed), ops.zeros_like(threshold), ops.zeros_like(scale)

    def construct(self, rows_NI: Tensor, seed: Tensor) -> Tensor:
        """Drop.

        Args:
            rows_NI: (N, I) float32.
            seed: () int32.

        Returns:
            (N, I) float32; the input itself while the seed is 0.
        """
        return self.forward(rows_NI, seed, self.threshold, self.kept_scale)
