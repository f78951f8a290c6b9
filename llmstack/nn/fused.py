"""Kernels that are one Ascend operator each, with the interfaces of :mod:`llmstack.nn.composed`."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn, ops
from mindspore.ops.operations.nn_ops import FlashAttentionScore

from llmstack.nn.composed import RotatedHeads, visible_keys


class FusedMask(nn.Cell):
    """The mask in the form ``FlashAttentionScore`` takes.

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
            (B, 1, T, T) uint8: 1 where the key is hidden.
        """
        return ops.cast(ops.logical_not(visible_keys(segments_BT, self.window)), ms.uint8)


class FusedAttention(nn.Cell):
    """softmax(q k^T / sqrt(E)) v over visible keys by ``FlashAttentionScore``, which computes in bfloat16.

    Args:
        num_heads: query heads H.
        num_kv_heads: key/value heads K.
        head_dim: head width E.
    """

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.merged_width = num_heads * head_dim
        self.heads = RotatedHeads(num_heads, num_kv_heads, head_dim)
        self.flash = FlashAttentionScore(num_heads, scale_value=head_dim**-0.5, input_layout="BNSD")

    def construct(self, qkv: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """Attend.

        Args:
            qkv: (B*T, (H+2K)*E), queries then keys then values.
            cos: (B*T, E/2), cosines of each token's angles.
            sin: (B*T, E/2), sines.
            mask: (B, 1, T, T) uint8 from :class:`FusedMask`, 1 where the key is hidden.

        Returns:
            (B*T, H*E) in the dtype of ``qkv``.
        """
        query_BHTE, key_BKTE, value_BKTE = self.heads(qkv, cos, sin, mask.shape[0])
        query_BHTE = ops.cast(query_BHTE, ms.bfloat16)
        key_BKTE = ops.cast(key_BKTE, ms.bfloat16)
        value_BKTE = ops.cast(value_BKTE, ms.bfloat16)
        _, _, _, mixed_BHTE = self.flash(query_BHTE, key_BKTE, value_BKTE, None, None, None, mask, None)
        merged = ops.reshape(ops.transpose(mixed_BHTE, (0, 2, 1, 3)), (-1, self.merged_width))
        return ops.cast(merged, qkv.dtype)


class FusedRmsNorm(nn.Cell):
    """x / sqrt(mean(x^2) + eps) * weight by ``RmsNorm``.

    Args:
        eps: added to the mean square.
    """

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def construct(self, hidden_ND: Tensor, weight_D: Tensor) -> Tensor:
        """Normalise the last axis.

        Args:
            hidden_ND: (N, D).
            weight_D: (D,).

        Returns:
            (N, D) in the input's dtype.
        """
        return ops.rms_norm(hidden_ND, weight_D, self.eps)[0]


class FusedSwiGlu(nn.Cell):
    """silu(gate) * up by ``Swiglu``."""

    def construct(self, gate_up: Tensor) -> Tensor:
        """Gate one half of the last axis with the other.

        Args:
            gate_up: (N, 2F), gate then up.

        Returns:
            (N, F) in the input's dtype.
        """
        return ops.swiglu(gate_up, -1)
