"""A decoder with a language head."""

from __future__ import annotations

from mindspore import Tensor, nn, ops

from llmstack.config.model import ModelConfig, vocab_size_of
from llmstack.nn.decoder import Decoder
from llmstack.nn.heads import LanguageHead
from llmstack.nn.init import initialise


class NextTokenNetwork(nn.Cell):
    """What every next-token model is, whoever computes it: a trunk and a language head.

    Attributes:
        trunk: a Cell ``(tokens_BT, positions_BT, segments_BT) -> hidden_BTD``.
        head: a Cell ``hidden_ND -> logits_NV``.
        hidden_size: D.
        vocab_size: V.
    """

    trunk: nn.Cell
    head: nn.Cell
    hidden_size: int
    vocab_size: int

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor) -> Tensor:
        """Logits of the token after each position.

        Args:
            tokens_BT: (B, T) int32 token ids.
            positions_BT: (B, T) int32, place of each token in its document.
            segments_BT: (B, T) int32, document of each token within its row, 0 for padding.

        Returns:
            (B, T, V) float32.
        """
        hidden_BTD = self.trunk(tokens_BT, positions_BT, segments_BT)
        logits_NV = self.head(ops.reshape(hidden_BTD, (-1, self.hidden_size)))
        return ops.reshape(logits_NV, tokens_BT.shape + (self.vocab_size,))


class CausalLM(NextTokenNetwork):
    """Next-token model: trunk and language head (the embedding itself when ``tie_word_embeddings``).

    A loss that needs few positions takes ``trunk(...)``, keeps those rows and calls ``head`` on them alone.

    Args:
        config: the model's sizes; ``vocab_size`` must be set.
        seed: of the initial weights; None leaves them to be loaded.
    """

    def __init__(self, config: ModelConfig, *, seed: int | None = 0) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size_of(config)
        self.hidden_size = config.hidden_size
        self.trunk = Decoder(config)
        tied = self.trunk.embedding if config.tie_word_embeddings else None
        self.head = LanguageHead(config.hidden_size, self.vocab_size, tied=tied)
        # A tied matrix was renamed when the head took it in; names are the structural ones again after this.
        self.update_parameters_name()
        if seed is not None:
            initialise(self, config, seed=seed)

    def native(self) -> CausalLM:
        """Itself: our own network with the weights of now, for callers that may hold another provider's."""
        return self
