"""Kernels composed of plain operators: correct on every device, the fast path of none."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

# Added to the score of a hidden key: exp() of it is exactly 0 in float32, and a sum with a finite score stays finite.
HIDDEN_SCORE = -1e9


def visible_keys(segments_BT: Tensor, window: int | None = None) -> Tensor:
    """Which keys each query sees: those of its own segment, up to and including itself, at most ``window`` of them.

    Pads share segment 0 and see only pads, so no row of the result is empty and no softmax divides by zero.

    Args:
        segments_BT: (B, T) int32, the document of each token within its row; 0 for padding.
        window: tokens a query sees, itself included (Beltagy et al. 2020, section 3.1); None: all before it.

    Returns:
        (B, 1, T, T) bool; [b, 0, query, key] is True where the key is visible.
    """
    of_query_B1T1 = ops.expand_dims(ops.expand_dims(segments_BT, 1), 3)
    of_key_B11T = ops.expand_dims(ops.expand_dims(segments_BT, 1), 1)
    order_T = ops.arange(segments_BT.shape[1])
    age_TT = ops.expand_dims(order_T, 1) - ops.expand_dims(order_T, 0)
    near_TT = ops.greater_equal(age_TT, 0)
    if window is not None:
        near_TT = ops.logical_and(near_TT, ops.less(age_TT, window))
    return ops.logical_and(ops.equal(of_query_B1T1, of_key_B11T), near_TT)


class ComposedMask(nn.Cell):
    """The mask in the form :class:`ComposedAttention` takes: an additive float32 tensor.

    Args:
        window: tokens a query sees, itself included; None: all before it.
    """

    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        self.window = window

    def construct(self, segments_BT: Tensor) -> Tensor:
        """Build the mask, once a forward pass.

        Args:
            segments_BT: (B, T) int32, document of each token, 0 for padding.

        Returns:
            (B, 1, T, T) float32: 0 where the key is visible, a large negative number elsewhere.
        """
        return (1.0 - ops.cast(visible_keys(segments_BT, self.window), ms.float32)) * HIDDEN_SCORE


class RotatedHeads(nn.Cell):
    """Cut the fused projection into heads and turn the queries and keys by their positions.

    A pair (a, b) = channels (i, i + E/2) becomes (a cos - b sin, b cos + a sin): the rotation of Su et al. 2021
    (equation 34) in the channel order of Hugging Face's Llama.

    Args:
        num_heads: query heads H.
        num_kv_heads: key/value heads K.
        head_dim: head width E.
    """

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.parts = [num_heads, num_kv_heads]
        self.turned_and_plain = [num_heads + num_kv_heads, num_kv_heads]
        self.num_fused_heads = num_heads + 2 * num_kv_heads
        self.head_dim = head_dim
        self.halves = ops.Split(-1, 2)
        self.join = ops.Concat(-1)

    def construct(self, qkv: Tensor, cos: Tensor, sin: Tensor, num_rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """Split and turn.

        Args:
            qkv: (B*T, (H+2K)*E) float32, queries then keys then values.
            cos: (B*T, E/2) float32, cosines of each token's angles.
            sin: (B*T, E/2) float32, sines.
            num_rows: B.

        Returns:
            ``(query_BHTE, key_BKTE, value_BKTE)`` float32.
        """
        heads = ops.transpose(ops.reshape(qkv, (num_rows, -1, self.num_fused_heads, self.head_dim)), (0, 2, 1, 3))
        turned, value_BKTE = ops.split(heads, self.turned_and_plain, 1)
        cos = ops.reshape(cos, (num_rows, 1, -1, self.head_dim // 2))
        sin = ops.reshape(sin, (num_rows, 1, -1, self.head_dim // 2))
        first, second = self.halves(turned)
        turned = self.join((first * cos - second * sin, second * cos + first * sin))
        query_BHTE, key_BKTE = ops.split(turned, self.parts, 1)
        return query_BHTE, key_BKTE, value_BKTE


class ComposedAttention(nn.Cell):
    """softmax(q k^T / sqrt(E) + mask) v of rotated heads, from batched matmuls (Vaswani et al. 2017, equation 1).

    Query heads that share a key/value head are stacked along the rows of one matmul, so grouped keys and values
    are never copied (Ainslie et al. 2023, section 2.2).

    Args:
        num_heads: query heads H.
        num_kv_heads: key/value heads K.
        head_dim: head width E.
    """

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_kv_heads = num_kv_heads
        self.group = num_heads // num_kv_heads
        self.merged_width = num_heads * head_dim
        self.scale = head_dim**-0.5
        self.heads = RotatedHeads(num_heads, num_kv_heads, head_dim)
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.softmax = ops.Softmax(-1)
        self.weighted_sum = ops.BatchMatMul()

    def construct(self, qkv: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """Attend.

        Args:
            qkv: (B*T, (H+2K)*E) float32, queries then keys then values.
            cos: (B*T, E/2) float32, cosines of each token's angles.
            sin: (B*T, E/2) float32, sines.
            mask: (B, 1, T, T) float32 from :class:`ComposedMask`.

        Returns:
            (B*T, H*E) float32.
        """
        rows, _, tokens, _ = mask.shape
        query_BHTE, key_BKTE, value_BKTE = self.heads(qkv, cos, sin, rows)
        stacked = (rows, self.num_kv_heads, self.group * tokens, -1)
        scores = self.scores(ops.reshape(query_BHTE * self.scale, stacked), key_BKTE)
        weights_BHTT = self.softmax(ops.reshape(scores, (rows, -1, tokens, tokens)) + mask)
        mixed = self.weighted_sum(ops.reshape(weights_BHTT, stacked), value_BKTE)
        mixed_BHTE = ops.reshape(mixed, query_BHTE.shape)
        return ops.reshape(ops.transpose(mixed_BHTE, (0, 2, 1, 3)), (-1, self.merged_width))


class ComposedLinear(nn.Cell):
    """x W^T, without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.matmul = ops.MatMul(transpose_b=True)

    def construct(self, rows_NI: Tensor, weight_OI: Tensor) -> Tensor:
        """Project each row.

        Args:
            rows_NI: (N, I) float32.
            weight_OI: (O, I) float32.

        Returns:
            (N, O) float32.
        """
        return self.matmul(rows_NI, weight_OI)


class ComposedRmsNorm(nn.Cell):
    """x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019, equation 4).

    Args:
        eps: added to the mean square.
    """

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.mean = ops.ReduceMean(keep_dims=True)

    def construct(self, hidden_ND: Tensor, weight_D: Tensor) -> Tensor:
        """Normalise the last axis.

        Args:
            hidden_ND: (N, D) float32.
            weight_D: (D,) float32.

        Returns:
            (N, D) float32.
        """
        return hidden_ND * ops.rsqrt(self.mean(ops.square(hidden_ND), -1) + self.eps) * weight_D


class ComposedSwiGlu(nn.Cell):
    """silu(gate) * up (Shazeer 2020, equation 6)."""

    def __init__(self) -> None:
        super().__init__()
        self.silu = nn.SiLU()
        self.halves = ops.Split(-1, 2)

    def construct(self, gate_up: Tensor) -> Tensor:
        """Gate one half of the last axis with the other.

        Args:
            gate_up: (N, 2F) float32, gate then up.

        Returns:
            (N, F) float32.
        """
        gate, up = self.halves(gate_up)
        return self.silu(gate) * up


class ComposedTokenNll(nn.Cell):
    """-log softmax(z / T)[label], log sum exp(z / T) and the entropy of softmax(z / T), row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.log_softmax = ops.LogSoftmax(-1)
        self.pick = ops.GatherD()
        self.sum = ops.ReduceSum()

    def construct(self, logits_NV: Tensor, labels_N: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Score each row's label.

        Args:
            logits_NV: (N, V) float32.
            labels_N: (N,) int32.
            temperature: (1,) float32, T > 0.

        Returns:
            ``(nll_N, lse_N, entropy_N)``: (N,) float32 each, in nats, all differentiable in the logits.
        """
        scaled_NV = logits_NV / temperature
        logp_NV = self.log_softmax(scaled_NV)
        index_N1 = ops.expand_dims(labels_N, 1)
        nll_N = -ops.reshape(self.pick(logp_NV, 1, index_N1), (-1,))
        lse_N = nll_N + ops.reshape(self.pick(scaled_NV, 1, index_N1), (-1,))
        return nll_N, lse_N, -self.sum(ops.exp(logp_NV) * logp_NV, -1)


class ComposedDropout(nn.Cell):
    """Zeroes numbers by a hash of their place and a seed: the finaliser of MurmurHash3 (Appleby 2011).

    Args:
        rate: share of numbers that are zeroed.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.threshold = round(rate * 2**31)
        self.kept_scale = Tensor(1.0 / (1.0 - rate), ms.float32)
        self.one = Tensor(1.0, ms.float32)
        self.xor, self.both, self.shift = ops.BitwiseXor(), ops.BitwiseAnd(), ops.RightShift()
        # (bits, the ones a logical shift leaves, odd multiplier)
        steps = ((16, 0xFFFF, 0x85EBCA6B), (13, 0x7FFFF, 0xC2B2AE35), (16, 0xFFFF, 1))
        self.steps = [tuple(Tensor(np.uint32(number).view(np.int32)) for number in step) for step in steps]

    def construct(self, rows_NI: Tensor, seed: Tensor) -> Tensor:
        """Drop.

        Args:
            rows_NI: (N, I) float32.
            seed: () int32.

        Returns:
            (N, I) float32; the input itself while the seed is 0.
        """
        width = rows_NI.shape[1]
        place = ops.expand_dims(ops.arange(rows_NI.shape[0]) * width, 1) + ops.expand_dims(ops.arange(width), 0)
        bits = self._mixed(self.xor(self._mixed(ops.cast(place, ms.int32)), self._mixed(seed)))
        off = ops.equal(seed, 0)
        kept = ops.logical_or(ops.greater_equal(self.both(bits, 0x7FFFFFFF), self.threshold), off)
        return rows_NI * (ops.cast(kept, ms.float32) * ops.select(off, self.one, self.kept_scale))

    def _mixed(self, bits: Tensor) -> Tensor:
        for shift, ones, multiplier in self.steps:
            bits = self.xor(bits, self.both(self.shift(bits, shift), ones)) * multiplier
        return bits
