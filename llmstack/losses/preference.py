"""Losses of answers that were compared or judged: DPO and its relatives.

All of them take the same inputs, R rows of an answer each. For a loss of pairs the first half of the rows are the
chosen answers, the second half the rejected ones in the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mindspore import Tensor, nn, ops
from mindspore import dtype as mstype

from llmstack.config.preference import (
    HingeConfig,
    IpoConfig,
    KtoConfig,
    OrpoConfig,
    PreferenceLossConfig,
    RobustConfig,
    SigmoidConfig,
    SimpoConfig,
)
from llmstack.nn import kernels

_MAX_MEAN_LOGP = -1e-6
"""Odds of an answer that is certain are infinite; its probability a token is held this far below 1."""


class NegLogSigmoid(nn.Cell):
    """-log sigmoid(x), finite and with a gradient for any x.

    It is the cross-entropy of the logits (x, 0): the framework's own Softplus gives other last bits from call to call
    on CPU, which a resumed run must not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.token_nll = kernels.token_nll()

    def construct(self, x_N: Tensor) -> Tensor:
        """Take it of each number.

        Args:
            x_N: (N,) float32.

        Returns:
            (N,) float32.
        """
        logits_N2 = ops.stack((x_N, ops.zeros_like(x_N)), 1)
        first_N = ops.zeros(x_N.shape, mstype.int32)
        loss_N, _, _ = self.token_nll(logits_N2, first_N, ops.ones((1,), mstype.float32))
        return loss_N


class PairedLoss(nn.Cell, ABC):
    """Base of the losses of pairs: what an answer is worth, and what a lead in worth costs.

    Args:
        config: the loss's options.
    """

    def __init__(self, config: PreferenceLossConfig) -> None:
        super().__init__()
        self.neg_log_sigmoid = NegLogSigmoid()

    @abstractmethod
    def rewards(self, logp_R: Tensor, ref_logp_R: Tensor, tokens_R: Tensor) -> Tensor:
        """What each answer is worth to the policy.

        Args:
            logp_R: (R,) float32, log-probability of each answer, summed over its tokens.
            ref_logp_R: (R,) float32, the reference's.
            tokens_R: (R,) float32, tokens of each answer.

        Returns:
            (R,) float32.
        """

    @abstractmethod
    def losses(self, lead_B: Tensor, mean_logp_B: Tensor) -> Tensor:
        """What each pair costs.

        Args:
            lead_B: (B,) float32, worth of the chosen answer less that of the rejected one.
            mean_logp_B: (B,) float32, log-probability a token of the chosen answer.

        Returns:
            (B,) float32.
        """

    def construct(
        self, logp_R: Tensor, ref_logp_R: Tensor, tokens_R: Tensor, good_R: Tensor, baseline: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sum the loss of the pairs.

        Args:
            logp_R: (R,) float32, chosen answers first.
            ref_logp_R: (R,) float32; zeros for a loss without reference.
            tokens_R: (R,) float32.
            good_R: (R,) float32, not read: the place of a row says which it is.
            baseline: () float32, not read.

        Returns:
            ``(loss_sum, right, reward_R)``: () float32 sum over pairs, () float32 pairs whose chosen answer leads (a
            tie counts half), and (R,) float32.
        """
        reward_R = self.rewards(logp_R, ref_logp_R, tokens_R)
        num_pairs = logp_R.shape[0] // 2
        chosen_B, rejected_B = ops.split(reward_R, num_pairs, 0)
        mean_logp_B, _ = ops.split(logp_R / tokens_R, num_pairs, 0)
        loss_B = self.losses(chosen_B - rejected_B, mean_logp_B)
        right = above(chosen_B - rejected_B)
        return ops.reduce_sum(loss_B), right, reward_R


class SigmoidLoss(PairedLoss):
    """-(1 - e) log sigmoid(h) - e log sigmoid(-h),  h = beta (log-ratio chosen - log-ratio rejected).

    Rafailov et al. 2023 (DPO), equation 7, for e = 0; with e the share of wrong labels Mitchell 2023 ("A note on DPO
    with noisy preferences", cDPO). Since log sigmoid(-h) = log sigmoid(h) - h it is -log sigmoid(h) + e h.

    Args:
        config: beta and e.
    """

    def __init__(self, config: SigmoidConfig) -> None:
        super().__init__(config)
        self.beta, self.flipped = config.beta, config.label_smoothing

    def rewards(self, logp_R: Tensor, ref_logp_R: Tensor, tokens_R: Tensor) -> Tensor:
        """Beta times the log-ratio to the reference (Rafailov et al. 2023, equation 5, without its constant)."""
        return self.beta * (logp_R - ref_logp_R)

    def losses(self, lead_B: Tensor, mean_logp_B: Tensor) -> Tensor:
        """The smoothed logistic loss."""
        return self.neg_log_sigmoid(lead_B) + self.flipped * lead_B


class RobustLoss(SigmoidLoss):
    """(-(1 - e) log sigmoid(h) + e log sigmoid(-h)) / (1 - 2 e),  h as in DPO.

    Chowdhury, Kini & Natarajan 2024 ("Provably Robust DPO"), section 3.1: its mean over labels that are wrong with
    probability e is the loss of the right ones. It is -log sigmoid(h) - e / (1 - 2 e) h.

    Args:
        config: beta and e.
    """

    def __init__(self, config: RobustConfig) -> None:
        nn.Cell.__init__(self)
        self.neg_log_sigmoid = NegLogSigmoid()
        self.beta = config.beta
        self.flipped = -config.label_smoothing / (1.0 - 2.0 * config.label_smoothing)


class HingeLoss(PairedLoss):
    """max(0, 1 - h),  h as in DPO.

    Zhao et al. 2023 (SLiC-HF), with the likelihoods normalised by a reference as in Liu et al. 2023 (RSO).

    Args:
        config: beta.
    """

    def __init__(self, config: HingeConfig) -> None:
        super().__init__(config)
        self.beta = config.beta

    def rewards(self, logp_R: Tensor, ref_logp_R: Tensor, tokens_R: Tensor) -> Tensor:
        """Beta times the log-ratio."""
        return self.beta * (logp_R - ref_logp_R)

    def losses(self, lead_B: Tensor, mean_logp_B: Tensor) -> Tensor:
        """The hinge."""
        return ops.relu(1.0 - lead_B)


class IpoLoss(PairedLoss):
    """(h - 1 / (2 beta))^2,  h = log-ratio chosen - log-ratio rejected.

    Azar et al. 2023 ("A General Theoretical Paradigm to Understand Learning from Human Preferences"), equation 17, its
    tau here beta. A log-ratio is a sum over tokens, as there; with ``average`` a mean.

    Args:
        config: beta, and whether log-ratios are means.
    """

    def __init__(self, config: IpoConfig) -> None:
        super().__init__(config)
        self.beta, self.average = config.beta, config.average
        self.target = 1.0 / (2.0 * config.beta)

    def rewards(self, logp_R: Tensor, ref_logp_R: Tensor, tokens_R: Tensor) -> Tensor:
        """Beta times the log-ratio."""
        ratio_R = logp_R - ref_logp_R
        if self.average:
            ratio_R = ratio_R / tokens_R
        return self.beta * ratio_R

    def losses(self, lead_B: Tensor, mean_logp_B: Tensor) -> Tensor:
        """The squared distance to the wanted lead."""
        return ops.square(lead_B / self.beta - self.target)


class OrpoLoss(PairedLoss):
    """-mean logp chosen - weight log sigmoid(log odds chosen - log odds rejected).

    Hong et al. 2024 (ORPO), equations 6 and 7; odds = P / (1 - P) with P the geometric mean of the tokens'
    probabilities (equations 3 and 4 there). The first term is the mean over the chosen answer's tokens, each pair
    counting the same.

    Args:
        config: the weight.
    """

    def __init__(self, config: OrpoConfig) -> None:
        super().__init__(config)
        self.weight = config.weight

    def rewards(self, logp_R: Tensor, ref_logp_R: Tensor, tokens_R: Tensor) -> Tensor:
        """Log odds of an answer."""
        mean_R = ops.minimum(logp_R / tokens_R, ops.full_like(logp_R, _MAX_MEAN_LOGP))
        return mean_R - ops.log(-ops.expm1(mean_R))

    def losses(self, lead_B: Tensor, mean_logp_B: Tensor) -> Tensor:
        """The language-model loss and the odds ratio's."""
        return self.weight * self.neg_log_sigmoid(lead_B) - mean_logp_B


class SimpoLoss(PairedLoss):
    """-log sigmoid(beta mean logp chosen - beta mean logp rejected - gamma).

    Meng et al. 2024 (SimPO), equation 6.

    Args:
        config: beta and gamma.
    """

    def __init__(self, config: SimpoConfig) -> None:
        super().__init__(config)
        self.beta, self.gamma = config.beta, config.gamma

    def rewards(self, logp_R: Tensor, ref_logp_R: Tensor, tokens_R: Tensor) -> Tensor:
        """Beta times the mean log-probability (equation 4)."""
        return self.beta * logp_R / tokens_R

    def losses(self, lead_B: Tensor, mean_logp_B: Tensor) -> Tensor:
        """The logistic loss behind the margin."""
        return self.neg_log_sigmoid(lead_B - self.gamma)


class KtoLoss(nn.Cell):
    """weight (1 - sigmoid(+-beta (log-ratio - z0))), + for a good answer, - for a bad one.

    Ethayarajh et al. 2024 (KTO), equation 8. z0, the KL of the policy to the reference, is given as ``baseline`` and
    has no gradient, as there.

    Args:
        config: beta and the weights of good and bad answers.
    """

    def __init__(self, config: KtoConfig) -> None:
        super().__init__()
        self.beta = config.beta
        self.good_weight, self.bad_weight = config.good_weight, config.bad_weight
        self.neg_log_sigmoid = NegLogSigmoid()

    def construct(
        self, logp_R: Tensor, ref_logp_R: Tensor, tokens_R: Tensor, good_R: Tensor, baseline: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sum the loss of the answers.

        Args:
            logp_R: (R,) float32, log-probability of each answer, summed over its tokens.
            ref_logp_R: (R,) float32, the reference's.
            tokens_R: (R,) float32, not read.
            good_R: (R,) float32, 1 for a good answer, 0 for a bad one.
            baseline: () float32, z0 in nats.

        Returns:
            ``(loss_sum, right, reward_R)``: () float32 sum over answers, () float32 answers on their side of the
            baseline, and (R,) float32, beta times the log-ratio.
        """
        reward_R = self.beta * (logp_R - ref_logp_R)
        lead_R = (2.0 * good_R - 1.0) * (reward_R - self.beta * baseline)
        weight_R = self.good_weight * good_R + self.bad_weight * (1.0 - good_R)
        # 1 - sigmoid(x) = sigmoid(-x), which keeps its digits where sigmoid(x) is 1
        loss_R = weight_R * ops.exp(-self.neg_log_sigmoid(-lead_R))
        return ops.reduce_sum(loss_R), above(lead_R), reward_R


def above(lead_N: Tensor) -> Tensor:
    """How many leads are above 0, one of exactly 0 counting half.

    Args:
        lead_N: (N,) float32.

    Returns:
        () float32.
    """
    more_N, same_N = ops.cast(lead_N > 0.0, mstype.float32), ops.cast(lead_N == 0.0, mstype.float32)
    return ops.reduce_sum(more_N + 0.5 * same_N)
