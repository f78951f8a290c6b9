"""The trunk every model stands on: embedding, blocks, final norm."""

from __future__ import annotations

from mindspore import Tensor, nn, ops

from llmstack.config.model import ModelConfig, vocab_size_of
from llmstack.nn import kernels
from llmstack.nn.block import DecoderBlock
from llmstack.nn.graph_reuse import share_graph
from llmstack.nn.init import blank_parameter
from llmstack.nn.norm import RMSNorm
from llmstack.nn.rotary import RotaryEmbedding


class Trunk(nn.Cell):
    """What turns tokens into hidden states: a Cell ``(tokens_BT, positions_BT, segments_BT) -> hidden_BTD``.

    Attributes:
        hidden_size: D.
    """

    hidden_size: int

    def at(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor, targets_C: Tensor) -> Tensor:
        """Hidden states of some positions; a trunk that can leaves out what the others alone would need.

        Args:
            tokens_BT: (B, T) int32 token ids.
            positions_BT: (B, T) int32, place of each token in its document.
            segments_BT: (B, T) int32, document of each token within its row, 0 for padding.
            targets_C: (C,) int32, indices into the B*T positions.

        Returns:
            (C, D) float32, normalised.
        """
        hidden_BTD = self.construct(tokens_BT, positions_BT, segments_BT)
        return ops.gather(ops.reshape(hidden_BTD, (-1, self.hidden_size)), targets_C, 0)


class Decoder(Trunk):
    """Token embedding, L decoder blocks and a final norm; mask and angles are made once and shared by all blocks.

    Args:
        config: the model's sizes; ``vocab_size`` must be set.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.hidden_size = config.hidden_size
        self.embedding = blank_parameter("embedding", (vocab_size_of(config), config.hidden_size))
        self.mask = kernels.attention_mask(config.sliding_window)
        self.rotary = RotaryEmbedding(
            config.head_dim, config.max_position_embeddings, config.rope_theta, config.rope_scaling
        )
        self.blocks = nn.CellList([DecoderBlock(config) for _ in range(config.num_hidden_layers)])
        self.last = config.num_hidden_layers - 1
        for block in self.blocks:
            share_graph(block, config, type(block.attention.kernel))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def embed(self, tokens_BT: Tensor) -> Tensor:
        """Rows of the embedding matrix.

        Args:
            tokens_BT: (B, T) int32.

        Returns:
            (B*T, D) float32.
        """
        return ops.gather(self.embedding, ops.reshape(tokens_BT, (-1,)), 0)

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor) -> Tensor:
        """Run every block.

        Args:
            tokens_BT: (B, T) int32 token ids.
            positions_BT: (B, T) int32, place of each token in its document.
            segments_BT: (B, T) int32, document of each token within its row, 0 for padding.

        Returns:
            (B, T, D) float32, normalised.
        """
        mask = self.mask(segments_BT)
        cos, sin = self.rotary(positions_BT)
        hidden_ND = self.embed(tokens_BT)
        for block in self.blocks:
            hidden_ND = block(hidden_ND, cos, sin, mask)
        return ops.reshape(self.norm(hidden_ND), tokens_BT.shape + (self.hidden_size,))

    def at(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor, targets_C: Tensor) -> Tensor:
        """Hidden states of some positions: the others stop in the last block, once they were attended to.

        Args:
            tokens_BT: (B, T) int32 token ids.
            positions_BT: (B, T) int32, place of each token in its document.
            segments_BT: (B, T) int32, document of each token within its row, 0 for padding.
            targets_C: (C,) int32, indices into the B*T positions.

        Returns:
            (C, D) float32, normalised.
        """
        mask = self.mask(segments_BT)
        cos, sin = self.rotary(positions_BT)
        hidden_ND = self.embed(tokens_BT)
        for number in range(self.last):
            hidden_ND = self.blocks[number](hidden_ND, cos, sin, mask)
        return self.norm(self.blocks[self.last].at(hidden_ND, cos, sin, mask, targets_C))
