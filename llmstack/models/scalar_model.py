"""A decoder that gives one number a token: reward model and value model."""

from __future__ import annotations

from mindspore import Tensor, nn, ops

from llmstack.config.model import ModelConfig
from llmstack.nn.decoder import Decoder
from llmstack.nn.heads import ScalarHead
from llmstack.nn.init import initialise


class ScoringNetwork(nn.Cell):
    """What every model of one number a token is, whoever computes it: a trunk and a scalar head.

    Attributes:
        trunk: a Cell ``(tokens_BT, positions_BT, segments_BT) -> hidden_BTD``.
        score: a Cell ``hidden_ND -> (N,)``.
        hidden_size: D.
    """

    trunk: nn.Cell
    score: nn.Cell
    hidden_size: int

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor) -> Tensor:
        """A number for each position.

        Args:
            tokens_BT: (B, T) int32 token ids.
            positions_BT: (B, T) int32, place of each token in its document.
            segments_BT: (B, T) int32, document of each token within its row, 0 for padding.

        Returns:
            (B, T) float32.
        """
        hidden_BTD = self.trunk(tokens_BT, positions_BT, segments_BT)
        return ops.reshape(self.score(ops.reshape(hidden_BTD, (-1, self.hidden_size))), tokens_BT.shape)


class ScalarModel(ScoringNetwork):
    """Trunk and scalar head. A reward model reads its score at an answer's last token, a value model reads all.

    Args:
        config: the model's sizes; ``vocab_size`` must be set.
        seed: of the initial weights; None leaves them to be loaded.
    """

    def __init__(self, config: ModelConfig, *, seed: int | None = 0) -> None:
        super().__init__()
        self.config = config
        self.hidden_size = config.hidden_size
        self.trunk = Decoder(config)
        self.score = ScalarHead(config.hidden_size)
        if seed is not None:
            initialise(self, config, seed=seed)

    def native(self) -> ScalarModel:
        """Itself: our own network with the weights of now, for callers that may hold another provider's."""
        return self
