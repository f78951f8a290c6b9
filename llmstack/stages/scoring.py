"""Forward passes that read a model at the positions that matter.

``targets_C`` are indices into the B*T positions of a batch, always C of them, filled up with index 0 and mask 0: only
these reach the language head.
"""

from __future__ import annotations

from mindspore import Tensor, nn, ops

from llmstack.losses.logprob import TokenLogProbs
from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel


class TargetLogits(nn.Cell):
    """Logits of chosen positions only.

    Args:
        model: the language model.
    """

    def __init__(self, model: CausalLM) -> None:
        super().__init__(auto_prefix=False)
        self.trunk = model.trunk
        self.head = model.head
        self.hidden_size = model.config.hidden_size

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor, targets_C: Tensor) -> Tensor:
        """Run the trunk on all positions and the head on some.

        Args:
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32, 0 for padding.
            targets_C: (C,) int32, indices into the B*T positions.

        Returns:
            (C, V) float32.
        """
        hidden_BTD = self.trunk(tokens_BT, positions_BT, segments_BT)
        hidden_ND = ops.reshape(hidden_BTD, (-1, self.hidden_size))
        return self.head(ops.gather(hidden_ND, targets_C, 0))


class TargetLogProbs(nn.Cell):
    """Log-probability and entropy at chosen positions: old and reference log-probabilities of PPO.

    Args:
        model: the language model.
    """

    def __init__(self, model: CausalLM) -> None:
        super().__init__(auto_prefix=False)
        self.logits = TargetLogits(model)
        self.logp = TokenLogProbs()

    def construct(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        targets_C: Tensor,
        labels_C: Tensor,
        temperature: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Score the labels.

        Args:
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32.
            targets_C: (C,) int32.
            labels_C: (C,) int32, the token after each target.
            temperature: () float32.

        Returns:
            ``(logp_C, entropy_C)`` float32, in nats.
        """
        return self.logp(self.logits(tokens_BT, positions_BT, segments_BT, targets_C), labels_C, temperature)


class TargetValues(nn.Cell):
    """A value model at chosen positions.

    Args:
        model: the critic.
    """

    def __init__(self, model: ScalarModel) -> None:
        super().__init__(auto_prefix=False)
        self.model = model

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor, targets_C: Tensor) -> Tensor:
        """Value of the state after each chosen position.

        Args:
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32.
            targets_C: (C,) int32.

        Returns:
            (C,) float32.
        """
        return ops.gather(ops.reshape(self.model(tokens_BT, positions_BT, segments_BT), (-1,)), targets_C, 0)


class LastScores(nn.Cell):
    """A scalar model's value at the last token of each row.

    Args:
        model: reward or value model.
    """

    def __init__(self, model: ScalarModel) -> None:
        super().__init__(auto_prefix=False)
        self.model = model
        self.pick = ops.GatherD()

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor, last_B: Tensor) -> Tensor:
        """Score each row.

        Args:
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32.
            last_B: (B,) int32, index of each row's last token.

        Returns:
            (B,) float32.
        """
        values_BT = self.model(tokens_BT, positions_BT, segments_BT)
        return ops.reshape(self.pick(values_BT, 1, ops.reshape(last_B, (-1, 1))), (-1,))
