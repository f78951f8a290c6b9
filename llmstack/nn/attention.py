"""Grouped-query self-attention with rotary positions."""

from __future__ import annotations

from mindspore import Tensor, nn, ops

from llmstack.config.model import ModelConfig
from llmstack.nn import kernels
from llmstack.nn.linear import Linear
from llmstack.nn.norm import RMSNorm


class HeadNorms(nn.Cell):
    """RMSNorm of every query head and every key head, one weight for each kind (Dehghani et al. 2023, section 2).

    Args:
        config: the model's sizes.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        query_width = config.num_attention_heads * config.head_dim
        kv_width = config.num_key_value_heads * config.head_dim
        self.widths = (query_width, kv_width, kv_width)
        self.query = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.key = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.join = ops.Concat(1)

    def construct(self, qkv: Tensor) -> Tensor:
        """Normalise.

        Args:
            qkv: (N, (H+2K)*E) float32, queries then keys then values.

        Returns:
            The same shape; values as they were.
        """
        query, key, value = ops.split(qkv, self.widths, 1)
        query = ops.reshape(self.query(ops.reshape(query, (-1, self.head_dim))), query.shape)
        key = ops.reshape(self.key(ops.reshape(key, (-1, self.head_dim))), key.shape)
        return self.join((query, key, value))


class GroupedQueryAttention(nn.Cell):
    """Causal self-attention in which H/K query heads share a key/value head (Ainslie et al. 2023, section 2.2).

    Which tokens see which is decided by the mask alone: packed documents and padding on either side need nothing else.

    Args:
        config: the model's sizes.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        heads, kv_heads, head_dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.qkv = Linear(config.hidden_size, (heads + 2 * kv_heads) * head_dim, bias=config.attention_bias)
        self.head_norms = HeadNorms(config) if config.qk_norm else nn.Identity()
        self.kernel = kernels.attention(heads, kv_heads, head_dim, config.sliding_window)
        self.out = Linear(heads * head_dim, config.hidden_size, bias=config.attention_out_bias)

    def heads(self, hidden_ND: Tensor) -> Tensor:
        """Queries, keys and values, not yet turned by their positions.

        Args:
            hidden_ND: (B*T, D) float32, normalised residual stream.

        Returns:
            (B*T, (H+2K)*E) float32.
        """
        return self.head_norms(self.qkv(hidden_ND))

    def attend(self, hidden_ND: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """What every head read, not yet projected back.

        Args:
            hidden_ND: (B*T, D) float32, normalised residual stream.
            cos: (B*T, E/2) float32 from :class:`~llmstack.nn.rotary.RotaryEmbedding`.
            sin: (B*T, E/2) float32 from the same.
            mask: which tokens see which, from :func:`llmstack.nn.kernels.attention_mask`.

        Returns:
            (B*T, H*E) float32.
        """
        return self.kernel(self.heads(hidden_ND), cos, sin, mask)

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
        return self.out(self.attend(hidden_ND, cos, sin, mask))
