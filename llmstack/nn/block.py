"""One layer of the decoder."""

from __future__ import annotations

from mindspore import Tensor, nn, ops

from llmstack.config.model import ModelConfig
from llmstack.nn.attention import GroupedQueryAttention
from llmstack.nn.mlp import SwiGLU
from llmstack.nn.norm import RMSNorm


class DecoderBlock(nn.Cell):
    """Pre-norm residual layer: x + attention(norm(x)), then x + mlp(norm(x)) (Xiong et al. 2020, table 1).

    Args:
        config: the model's sizes.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = GroupedQueryAttention(config)
        self.mlp_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)

    def construct(self, hidden_ND: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """Apply the layer.

        Args:
            hidden_ND: (B*T, D) float32, residual stream.
            cos: (B*T, E/2) float32 from :class:`~llmstack.nn.rotary.RotaryEmbedding`.
            sin: (B*T, E/2) float32 from the same.
            mask: which tokens see which, from :func:`llmstack.nn.kernels.attention_mask`.

        Returns:
            (B*T, D) float32.
        """
        hidden_ND = hidden_ND + self.attention(self.attention_norm(hidden_ND), cos, sin, mask)
        return hidden_ND + self.mlp(self.mlp_norm(hidden_ND))

    def at(self, hidden_ND: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, targets_C: Tensor) -> Tensor:
        """Apply the layer where its result is wanted: all positions are attended to, but only some go on.

        Args:
            hidden_ND: (B*T, D) float32, residual stream.
            cos: (B*T, E/2) float32.
            sin: (B*T, E/2) float32.
            mask: which tokens see which.
            targets_C: (C,) int32, indices into the B*T positions.

        Returns:
            (C, D) float32, the rows ``targets_C`` of what ``construct`` gives.
        """
        heads_ND = self.attention.attend(self.attention_norm(hidden_ND), cos, sin, mask)
        hidden_CD = ops.gather(hidden_ND, targets_C, 0) + self.attention.out(ops.gather(heads_ND, targets_C, 0))
        return hidden_CD + self.mlp(self.mlp_norm(hidden_CD))
