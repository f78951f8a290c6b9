"""Forward passes that read a model at the positions that matter.

``targets_C`` are indices into the B*T positions of a batch, always C of them, filled up with index 0 and mask 0: only
these reach the language head.
"""

from __future__ import annotations

from mindspore import Tensor, nn, ops

from llmstack.losses.logprob import TokenLogProbs
from llmstack.models.actor_critic import ActorCritic
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

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor, targets_C: Tensor) -> Tensor:
        """Run the trunk and the head where they are wanted.

        Args:
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32, 0 for padding.
            targets_C: (C,) int32, indices into the B*T positions.

        Returns:
            (C, V) float32.
        """
        return self.head(self.trunk.at(tokens_BT, positions_BT, segments_BT, targets_C))


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


class TargetLogProbsAndValues(nn.Cell):
    """Policy and value head of one trunk at chosen positions, from one pass of it.

    Args:
        model: both.
    """

    def __init__(self, model: ActorCritic) -> None:
        super().__init__(auto_prefix=False)
        self.trunk = model.policy.trunk
        self.head = model.policy.head
        self.score = model.score
        self.logp = TokenLogProbs()

    def construct(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        targets_C: Tensor,
        labels_C: Tensor,
        temperature: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Score the labels and the states they are chosen in.

        Args:
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32.
            targets_C: (C,) int32.
            labels_C: (C,) int32, the token after each target.
            temperature: () float32.

        Returns:
            ``(logp_C, entropy_C, value_C)`` float32, in nats and in units of the score.
        """
        hidden_CD = self.trunk.at(tokens_BT, positions_BT, segments_BT, targets_C)
        logp_C, entropy_C = self.logp(self.head(hidden_CD), labels_C, temperature)
        return logp_C, entropy_C, self.score(hidden_CD)


class TargetValues(nn.Cell):
    """A value model at chosen positions.

    Args:
        model: the critic.
    """

    def __init__(self, model: ScalarModel) -> None:
        super().__init__(auto_prefix=False)
        self.trunk, self.score = model.trunk, model.score

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
        return self.score(self.trunk.at(tokens_BT, positions_BT, segments_BT, targets_C))


class LastScores(nn.Cell):
    """A scalar model's value at the last token of each row.

    Args:
        model: reward or value model.
    """

    def __init__(self, model: ScalarModel) -> None:
        super().__init__(auto_prefix=False)
        self.trunk = model.trunk
        self.score = model.score

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
        rows, width = tokens_BT.shape
        last_of_all_B = last_B + ops.arange(0, rows * width, width, dtype=last_B.dtype)
        return self.score(self.trunk.at(tokens_BT, positions_BT, segments_BT, last_of_all_B))
