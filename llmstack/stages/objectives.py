"""What each stage descends: a model and a loss as one Cell, ``construct(inv_count, *batch) -> (loss, *metrics)``."""

from __future__ import annotations

from collections.abc import Sequence

from mindspore import Tensor, nn, ops

from llmstack.losses.cross_entropy import MaskedCrossEntropy
from llmstack.losses.pairwise import PairwiseLoss
from llmstack.losses.ppo import PolicyLoss, ValueLoss
from llmstack.models.actor_critic import ActorCritic
from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel
from llmstack.stages.scoring import LastScores, TargetLogits, TargetLogProbs, TargetLogProbsAndValues, TargetValues


def scaled(sums: Sequence[Tensor], factor: Tensor) -> tuple[Tensor, ...]:
    """Each of some scalars times a factor.

    Args:
        sums: () float32 each.
        factor: () float32.
    """
    products = ()
    for item in sums:
        products = (*products, item * factor)
    return products


class LanguageObjective(nn.Cell):
    """Mean next-token loss over the trained tokens of the whole batch.

    Args:
        model: the language model.
        z_loss: weight of the squared log-partition.
    """

    def __init__(self, model: CausalLM, *, z_loss: float) -> None:
        super().__init__(auto_prefix=False)
        self.logits = TargetLogits(model)
        self.loss = MaskedCrossEntropy(z_loss)

    def construct(
        self,
        inv_count: Tensor,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        targets_C: Tensor,
        labels_C: Tensor,
        mask_C: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """This micro-batch's share of the mean.

        Args:
            inv_count: () float32, 1 over the trained tokens of all micro-batches.
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32.
            targets_C: (C,) int32, trained positions.
            labels_C: (C,) int32, the token after each.
            mask_C: (C,) float32, 0 for fillers.

        Returns:
            ``(loss, count)``: () float32; count is this micro-batch's trained tokens.
        """
        logits_CV = self.logits(tokens_BT, positions_BT, segments_BT, targets_C)
        total, count = self.loss(logits_CV, labels_C, mask_C)
        return total * inv_count, count


class PairObjective(nn.Cell):
    """Mean Bradley-Terry loss over pairs.

    Args:
        model: the reward model.
        centering: weight of the squared sum of a pair's scores.
        label_smoothing: share of pairs that are taken to be the wrong way round.
    """

    def __init__(self, model: ScalarModel, *, centering: float, label_smoothing: float = 0.0) -> None:
        super().__init__(auto_prefix=False)
        self.scores = LastScores(model)
        self.loss = PairwiseLoss(centering, label_smoothing)

    def construct(
        self,
        inv_count: Tensor,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        last_B: Tensor,
        margin_B: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """This micro-batch's share of the mean; rows are all chosen answers, then all rejected ones.

        Args:
            inv_count: () float32, 1 over the pairs of all micro-batches.
            tokens_BT: (2B, T) int32.
            positions_BT: (2B, T) int32.
            segments_BT: (2B, T) int32.
            last_B: (2B,) int32, index of each row's last token.
            margin_B: (B,) float32.

        Returns:
            ``(loss, accuracy)``: () float32, accuracy the share of pairs whose chosen answer leads.
        """
        scores = self.scores(tokens_BT, positions_BT, segments_BT, last_B)
        chosen_B, rejected_B = ops.split(scores, margin_B.shape[0], 0)
        total, _ = self.loss(chosen_B, rejected_B, margin_B)
        right = ops.reduce_sum(ops.cast(chosen_B > rejected_B, scores.dtype))
        return total * inv_count, right * inv_count


class PolicyObjective(nn.Cell):
    """PPO's policy loss, mean over response tokens.

    Args:
        model: the policy.
        loss: clipped surrogate with its options.
    """

    def __init__(self, model: CausalLM, loss: PolicyLoss) -> None:
        super().__init__(auto_prefix=False)
        self.logp = TargetLogProbs(model)
        self.loss = loss

    def construct(  # noqa: PLR0913 - the inputs of a graph
        self,
        inv_count: Tensor,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        targets_C: Tensor,
        labels_C: Tensor,
        temperature: Tensor,
        old_logp_C: Tensor,
        ref_logp_C: Tensor,
        advantage_C: Tensor,
        weight_C: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """This micro-batch's share of the minibatch's loss.

        Args:
            inv_count: () float32, 1 over what the loss of the whole minibatch is divided by.
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32.
            targets_C: (C,) int32, the position before each response token.
            labels_C: (C,) int32, the response tokens.
            temperature: () float32, the one of the rollout.
            old_logp_C: (C,) float32.
            ref_logp_C: (C,) float32.
            advantage_C: (C,) float32.
            weight_C: (C,) float32, weight of each response token's loss, 0 where it does not count.

        Returns:
            ``(loss, clip_fraction, kl_old_new, entropy, ratio, off_ratio, *below)``: () float32, each a sum times
            inv_count; all but the loss are means over tokens when that is the number of tokens.
        """
        logp_C, entropy_C = self.logp(tokens_BT, positions_BT, segments_BT, targets_C, labels_C, temperature)
        total, _, *sums = self.loss(logp_C, old_logp_C, ref_logp_C, advantage_C, entropy_C, weight_C)
        return (total * inv_count, *scaled(sums, inv_count))


class CriticObjective(nn.Cell):
    """PPO's value loss, mean over response tokens.

    Args:
        model: the critic.
        loss: clipped squared error.
    """

    def __init__(self, model: ScalarModel, loss: ValueLoss) -> None:
        super().__init__(auto_prefix=False)
        self.values = TargetValues(model)
        self.loss = loss

    def construct(  # noqa: PLR0913 - the inputs of a graph
        self,
        inv_count: Tensor,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        targets_C: Tensor,
        old_value_C: Tensor,
        returns_C: Tensor,
        mask_C: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """This minibatch's mean.

        Args:
            inv_count: () float32, 1 over the real response tokens.
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32.
            targets_C: (C,) int32, the position before each response token.
            old_value_C: (C,) float32.
            returns_C: (C,) float32.
            mask_C: (C,) float32, 1 on real response tokens.

        Returns:
            ``(loss, value)``: () float32, value the mean estimate.
        """
        value_C = self.values(tokens_BT, positions_BT, segments_BT, targets_C)
        total, _ = self.loss(value_C, old_value_C, returns_C, mask_C)
        return total * inv_count, ops.reduce_sum(value_C * mask_C) * inv_count


class ActorCriticObjective(nn.Cell):
    """PPO's policy loss and value loss on one trunk, both means over response tokens.

    Args:
        model: policy and value head.
        policy_loss: clipped surrogate with its options.
        value_loss: clipped squared error.
        value_coef: weight of the value loss.
    """

    def __init__(
        self, model: ActorCritic, policy_loss: PolicyLoss, value_loss: ValueLoss, *, value_coef: float
    ) -> None:
        super().__init__(auto_prefix=False)
        self.read = TargetLogProbsAndValues(model)
        self.policy_loss, self.value_loss = policy_loss, value_loss
        self.value_coef = value_coef

    def construct(  # noqa: PLR0913 - the inputs of a graph
        self,
        inv_count: Tensor,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        targets_C: Tensor,
        labels_C: Tensor,
        temperature: Tensor,
        old_logp_C: Tensor,
        ref_logp_C: Tensor,
        advantage_C: Tensor,
        old_value_C: Tensor,
        returns_C: Tensor,
        mask_C: Tensor,
    ) -> tuple[Tensor, ...]:
        """This minibatch's mean; the inputs are those of :class:`PolicyObjective` and :class:`CriticObjective`.

        Returns:
            ``(loss, clip_fraction, kl_old_new, entropy, ratio, off_ratio, *below, value_loss, value)``: () float32
            means over real tokens.
        """
        logp_C, entropy_C, value_C = self.read(tokens_BT, positions_BT, segments_BT, targets_C, labels_C, temperature)
        total, _, *sums = self.policy_loss(logp_C, old_logp_C, ref_logp_C, advantage_C, entropy_C, mask_C)
        value_total, _ = self.value_loss(value_C, old_value_C, returns_C, mask_C)
        value = ops.reduce_sum(value_C * mask_C)
        return (
            (total + self.value_coef * value_total) * inv_count,
            *scaled(sums, inv_count),
            value_total * inv_count,
            value * inv_count,
        )
