"""The one place that knows devices: fused Ascend operators, or compositions of plain ones for the CPU.

A Cell asks for a kernel when it is built; the choice is a sub-cell, so no graph branches on the device.
"""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn, ops
from mindspore.ops.operations.nn_ops import FlashAttentionScore

# Added to the score of a hidden key: exp() of it is exactly 0 in float32, and a sum with a finite score stays finite.
HIDDEN_SCORE = -1e9


def on_ascend() -> bool:
    """Whether graphs built now run on Ascend."""
    return ms.get_context("device_target") == "Ascend"


def visible_keys(segments_BT: Tensor) -> Tensor:
    """Which keys each query sees: those of its own segment, up to and including itself.

    Pads share segment 0 and see only pads, so no row of the result is empty and no softmax divides by zero.

    Args:
        segments_BT: (B, T) int32, the document of each token within its row; 0 for padding.

    Returns:
        (B, 1, T, T) bool; [b, 0, query, key] is True where the key is visible.
    """
    num_tokens = segments_BT.shape[1]
    same_B1TT = ops.equal(ops.expand_dims(ops.expand_dims(segments_BT, 1), 3), segments_BT[:, None, None, :])
    order_T = ops.arange(num_tokens)
    causal_TT = ops.less_equal(ops.expand_dims(order_T, 0), ops.expand_dims(order_T, 1))
    return ops.logical_and(same_B1TT, causal_TT)


class ComposedMask(nn.Cell):
    """The mask in the form :class:`ComposedAttention` takes: an additive float32 tensor."""

    def construct(self, segments_BT: Tensor) -> Tensor:
        """Build the mask once a forward pass.

        Args:
            segments_BT: (B, T) int32, document of each token, 0 for padding.

        Returns:
            (B, 1, T, T) float32: 0 where the key is visible, a large negative number elsewhere.
        """
        visible_B1TT = ops.cast(visible_keys(segments_BT), ms.float32)
        return (1.0 - visible_B1TT) * HIDDEN_SCORE


class FusedMask(nn.Cell):
    """The mask in the form ``FlashAttentionScore`` takes: uint8, 1 where the key is hidden."""

    def construct(self, segments_BT: Tensor) -> Tensor:
        """Build the mask once a forward pass.

        Args:
            segments_BT: (B, T) int32, document of each token, 0 for padding.

        Returns:
            (B, 1, T, T) uint8: 1 where the key is hidden.
        """
        return ops.cast(ops.logical_not(visible_keys(segments_BT)), ms.uint8)


class ComposedAttention(nn.Cell):
    """softmax(q k^T / sqrt(E) + mask) v from batched matmuls (Vaswani et al. 2017, equation 1).

    Query heads that share a key/value head are stacked along the rows of one matmul, so grouped keys and values
    are never copied (Ainslie et al. 2023).

    Args:
        num_heads: query heads H.
        num_kv_heads: key/value heads K.
        head_dim: head width E.
    """

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.scale = head_dim**-0.5
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.softmax = ops.Softmax(-1)
        self.weighted_sum = ops.BatchMatMul()

    def construct(self, query_BHTE: Tensor, key_BKSE: Tensor, value_BKSE: Tensor, mask_B1TS: Tensor) -> Tensor:
        """Attend.

        Args:
            query_BHTE: (B, H, T, E) float32.
            key_BKSE: (B, K, S, E) float32.
            value_BKSE: (B, K, S, E) float32.
            mask_B1TS: (B, 1, T, S) float32 from :class:`ComposedMask`.

        Returns:
            (B, H, T, E) float32.
        """
        rows, heads, queries, width = query_BHTE.shape
        keys = key_BKSE.shape[2]
        stacked = (rows, self.num_kv_heads, heads // self.num_kv_heads * queries, width)
        scores = self.scores(ops.reshape(query_BHTE * self.scale, stacked), key_BKSE)
        scores_BHTS = ops.reshape(scores, (rows, heads, queries, keys)) + mask_B1TS
        weights = ops.reshape(self.softmax(scores_BHTS), stacked[:3] + (keys,))
        return ops.reshape(self.weighted_sum(weights, value_BKSE), (rows, heads, queries, width))


class FusedAttention(nn.Cell):
    """The same formula as one ``FlashAttentionScore`` operator. It computes in bfloat16 whatever comes in.

    Args:
        num_heads: query heads H.
        num_kv_heads: key/value heads K (read from the shapes by the operator).
        head_dim: head width E.
    """

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_kv_heads = num_kv_heads
        self.flash = FlashAttentionScore(num_heads, scale_value=head_dim**-0.5, input_layout="BNSD")

    def construct(self, query_BHTE: Tensor, key_BKSE: Tensor, value_BKSE: Tensor, mask_B1TS: Tensor) -> Tensor:
        """Attend.

        Args:
            query_BHTE: (B, H, T, E).
            key_BKSE: (B, K, S, E).
            value_BKSE: (B, K, S, E).
            mask_B1TS: (B, 1, T, S) uint8 from :class:`FusedMask`.

        Returns:
            (B, H, T, E) in the query's dtype.
        """
        query = ops.cast(query_BHTE, ms.bfloat16)
        key = ops.cast(key_BKSE, ms.bfloat16)
        value = ops.cast(value_BKSE, ms.bfloat16)
        _, _, _, mixed = self.flash(query, key, value, None, None, None, mask_B1TS, None)
        return ops.cast(mixed, query_BHTE.dtype)


class ComposedRmsNorm(nn.Cell):
    """x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019, equation 4) from plain operators.

    Args:
        eps: added to the mean square.
    """

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.mean = ops.ReduceMean(keep_dims=True)

    def construct(self, hidden: Tensor, weight_D: Tensor) -> Tensor:
        """Normalise the last axis.

        Args:
            hidden: (..., D) float32.
            weight_D: (D,) float32.

        Returns:
            (..., D) float32.
        """
        return hidden * ops.rsqrt(self.mean(ops.square(hidden), -1) + self.eps) * weight_D


class FusedRmsNorm(nn.Cell):
    """The same formula as one ``RmsNorm`` operator.

    Args:
        eps: added to the mean square.
    """

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def construct(self, hidden: Tensor, weight_D: Tensor) -> Tensor:
        """Normalise the last axis.

        Args:
            hidden: (..., D).
            weight_D: (D,).

        Returns:
            (..., D) in the input's dtype.
        """
        return ops.rms_norm(hidden, weight_D, self.eps)[0]


class ComposedSwiGlu(nn.Cell):
    """silu(gate) * up (Shazeer 2020, equation 6) from plain operators."""

    def __init__(self) -> None:
        super().__init__()
        self.silu = nn.SiLU()
        self.halves = ops.Split(-1, 2)

    def construct(self, gate_up: Tensor) -> Tensor:
        """Gate one half of the last axis with the other.

        Args:
            gate_up: (..., 2F) float32, gate then up.

        Returns:
            (..., F) float32.
        """
        gate, up = self.halves(gate_up)
        return self.silu(gate) * up


class FusedSwiGlu(nn.Cell):
    """The same formula as one ``Swiglu`` operator."""

    def construct(self, gate_up: Tensor) -> Tensor:
        """Gate one half of the last axis with the other.

        Args:
            gate_up: (..., 2F), gate then up.

        Returns:
            (..., F) in the input's dtype.
        """
        return ops.swiglu(gate_up, -1)


def attention_mask() -> nn.Cell:
    """A Cell ``segments_BT -> mask`` in the form the attention kernel of this device takes."""
    return FusedMask() if on_ascend() else ComposedMask()


def attention(num_heads: int, num_kv_heads: int, head_dim: int) -> nn.Cell:
    """A Cell ``(query_BHTE, key_BKSE, value_BKSE, mask) -> mixed_BHTE`` for this device.

    Args:
        num_heads: query heads H.
        num_kv_heads: key/value heads K.
        head_dim: head width E.
    """
    kernel = FusedAttention if on_ascend() else ComposedAttention
    return kernel(num_heads, num_kv_heads, head_dim)


def rms_norm(eps: float) -> nn.Cell:
    """A Cell ``(hidden, weight_D) -> normalised`` for this device.

    Args:
        eps: added to the mean square.
    """
    return FusedRmsNorm(eps) if on_ascend() else ComposedRmsNorm(eps)


def swiglu() -> nn.Cell:
    """A Cell ``gate_up -> silu(gate) * up`` for this device."""
    return FusedSwiGlu() if on_ascend() else ComposedSwiGlu()
