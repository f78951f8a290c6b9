"""Grouped-query self-attention with rotary positions."""

from __future__ import annotations

from mindspore import Tensor, nn

from llmstack.nn import kernels
from llmstack.nn.init import blank_parameter


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
        rows = (num_heads + 2 * num_kv_heads) * head_dim
        self.qkv = blank_parameter("qkv", (rows, hidden_size))
        self.out = blank_parameter("out", (hidden_size, num_heads * head_dim))
        self.project_in = kernels.linear()
        self.project_out = kernels.linear()
        self.kernel = kernels.attention(num_heads, num_kv_heads, head_dim)

    def construct(self, hidden_ND: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """Attend.

        Args:
            hidden_ND: (B*T, D) float32, normalised residual stream.
            cos: (B*T, E/2) float32 from :class:`~llmstack.nn.rotary.RotaryEmbedding`.
            sin: (B*T, E/2) float32 from the same.
            mask: which tokens see which, from :func:`llmstack.nn.kernels.attention_mask`.

        Returns:
            (B*T, D) float32.
        """
        merged = self.kernel(self.project_in(hidden_ND, self.qkv), cos, sin, mask)
        return self.project_out(merged, self.out)
