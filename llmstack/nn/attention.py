"""Grouped-query self-attention with rotary positions."""

from __future__ import annotations

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

from llmstack.nn import kernels
from llmstack.nn.rotary import Rotate


class GroupedQueryAttention(nn.Cell):
    """Causal self-attention in which H/K query heads share a key/value head (Ainslie et al. 2023, section 2.2).

    Which tokens see which is decided by the mask alone: packed documents and padding on either side need nothing else.

    Args:
        hidden_size: width D of the residual stream.
        num_heads: query heads H.
        num_kv_heads: key/value heads K, a divisor of H.
        head_dim: head width E.
    """

    def __init__(self, hidden_size: int, num_heads: int, *, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.rotated = num_heads + num_kv_heads
        rows = (num_heads + 2 * num_kv_heads) * head_dim
        self.qkv = Parameter(ops.zeros((rows, hidden_size), ms.float32), name="qkv")
        self.out = Parameter(ops.zeros((hidden_size, num_heads * head_dim), ms.float32), name="out")
        self.project_in = ops.MatMul(transpose_b=True)
        self.project_out = ops.MatMul(transpose_b=True)
        self.rotate = Rotate()
        self.kernel = kernels.attention(num_heads, num_kv_heads, head_dim)

    def heads(self, hidden_ND: Tensor, cos_B1TE: Tensor, sin_B1TE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of every token, the first two turned by position.

        Args:
            hidden_ND: (B*T, D) float32.
            cos_B1TE: (B, 1, T, E) float32.
            sin_B1TE: (B, 1, T, E) float32.

        Returns:
            ``(query_BHTE, key_BKTE, value_BKTE)`` float32.
        """
        rows, _, tokens, width = cos_B1TE.shape
        fused = ops.reshape(self.project_in(hidden_ND, self.qkv), (rows, tokens, -1, width))
        turned, value_BKTE = ops.split(ops.transpose(fused, (0, 2, 1, 3)), [self.rotated, self.num_kv_heads], 1)
        turned = self.rotate(turned, cos_B1TE, sin_B1TE)
        query_BHTE, key_BKTE = ops.split(turned, [self.num_heads, self.num_kv_heads], 1)
        return query_BHTE, key_BKTE, value_BKTE

    def merge(self, mixed_BHTE: Tensor) -> Tensor:
        """Join the heads of each token and project them back to the residual stream.

        Args:
            mixed_BHTE: (B, H, T, E) float32.

        Returns:
            (B*T, D) float32.
        """
        mixed_BTHE = ops.transpose(mixed_BHTE, (0, 2, 1, 3))
        return self.project_out(ops.reshape(mixed_BTHE, (-1, self.num_heads * self.head_dim)), self.out)

    def construct(self, hidden_ND: Tensor, cos_B1TE: Tensor, sin_B1TE: Tensor, mask: Tensor) -> Tensor:
        """Attend.

        Args:
            hidden_ND: (B*T, D) float32, normalised residual stream.
            cos_B1TE: (B, 1, T, E) float32 from :class:`~llmstack.nn.rotary.RotaryEmbedding`.
            sin_B1TE: (B, 1, T, E) float32, first half negated.
            mask: (B, 1, T, T) in the form of :func:`llmstack.nn.kernels.attention_mask`.

        Returns:
            (B*T, D) float32.
        """
        query_BHTE, key_BKTE, value_BKTE = self.heads(hidden_ND, cos_B1TE, sin_B1TE)
        return self.merge(self.kernel(query_BHTE, key_BKTE, value_BKTE, mask))
