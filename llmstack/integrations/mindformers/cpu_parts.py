"""The parts of MindFormers' transformer layer that a CPU needs in place of operators only Ascend has."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn, ops

from llmstack.integrations.mindformers.library import SelfAttention, get_gpt_layer_local_spec


class GroupedCoreAttention(nn.Cell):
    """softmax(q k^T / sqrt(E) + mask) v over MindFormers' layout of heads (Vaswani et al. 2017, equation 1).

    Takes the place of MindFormers' ``FlashAttention``. Query heads that share a key/value head are rows of one matmul.

    Args:
        config: MindFormers' ``TransformerConfig``.
        layer_number: number of the layer; MindFormers gives it to every part.
    """

    def __init__(self, config: Any, layer_number: int) -> None:
        super().__init__()
        self.layer_number = layer_number
        self.scale = config.kv_channels**-0.5
        self.num_kv_heads = config.num_query_groups
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.softmax = ops.Softmax(-1)
        self.weighted_sum = ops.BatchMatMul()

    def construct(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Attend.

        Args:
            query: (T, B, H, E) float32, turned by its positions.
            key: (T, B, K, E) float32, turned.
            value: (T, B, K, E) float32.
            mask: (B, 1, T, T) float32 to add: 0 where the key is visible, a large negative number elsewhere.

        Returns:
            (T, B, H*E) float32.
        """
        tokens, rows, heads, head_dim = query.shape
        stacked = (rows, self.num_kv_heads, -1, head_dim)
        query_BHTE = ops.transpose(query * self.scale, (1, 2, 0, 3))
        scores = self.scores(ops.reshape(query_BHTE, stacked), ops.transpose(key, (1, 2, 0, 3)))
        weights_BHTT = self.softmax(ops.reshape(scores, (rows, heads, tokens, tokens)) + mask)
        weights = ops.reshape(weights_BHTT, (rows, self.num_kv_heads, -1, tokens))
        mixed = self.weighted_sum(weights, ops.transpose(value, (1, 2, 0, 3)))
        mixed_BHTE = ops.reshape(mixed, (rows, heads, tokens, head_dim))
        return ops.reshape(ops.transpose(mixed_BHTE, (2, 0, 1, 3)), (tokens, rows, heads * head_dim))


class GroupedSelfAttention(SelfAttention):
    """MindFormers' self-attention with keys and values left as they are.

    Its own way without flash attention copies them for every query head, along axes of another layout.
    """

    def _repeat_kv(self, x: Tensor, rep: int) -> Tensor:
        return x


def layer_spec(*, qk_norm: bool) -> Any:
    """The layer of MindFormers' network for a CPU.

    Args:
        qk_norm: queries and keys are normalised.

    Returns:
        A ``ModuleSpec``.
    """
    spec = get_gpt_layer_local_spec(qk_layernorm=qk_norm, fused_norm=False)
    spec.submodules.self_attention.module = GroupedSelfAttention
    spec.submodules.self_attention.submodules.core_attention = GroupedCoreAttention
    return spec
