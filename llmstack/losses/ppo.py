"""The clipped losses of PPO for language models."""

from __future__ import annotations

from mindspore import Tensor, nn, ops

# exp() of a larger log-ratio says nothing more about the step and soon overflows
MAX_LOG_RATIO = 20.0

RATIO_EDGES = (0.5, 0.8, 0.95, 1.05, 1.25, 2.0)
"""Between these a histogram of the ratio counts; each pair's product is about 1."""


class PolicyLoss(nn.Cell):
    """Clipped policy surrogate with an entropy bonus and an optional KL term, over response tokens.

    With rho = exp(logp - old_logp), each token costs max(-A rho, -A clip(rho, 1 - clip_low, 1 + clip_high))
    (Schulman et al. 2017, equation 7; separate bounds: Yu et al. 2025, equation 10). Where A < 0 the dual clip caps
    it at -dual_clip A (Ye et al. 2020, equation 5). Then entropy_coef H is subtracted and kl_coef k2 added,
    k2 = (logp - ref_logp)^2 / 2, the estimator whose gradient is that of KL(policy || reference). With
    ``answer_len`` all tokens of an answer have one rho, the exponential of the mean of logp - old_logp over them
    (Zheng et al. 2025, GSPO, equation 7).

    Args:
        clip_low: the ratio is clipped below at 1 - clip_low.
        clip_high: the ratio is clipped above at 1 + clip_high.
        dual_clip: bound c > 1 of the dual clip; None leaves it out.
        entropy_coef: weight of the entropy bonus; 0 leaves it out.
        kl_coef: weight of the KL term; 0 leaves it out.
        answer_len: R, for one ratio an answer; None is one a token.
    """

    def __init__(
        self,
        clip_low: float,
        clip_high: float,
        *,
        dual_clip: float | None = None,
        entropy_coef: float = 0.0,
        kl_coef: float = 0.0,
        answer_len: int | None = None,
    ) -> None:
        super().__init__()
        self.has_one_ratio = answer_len is not None
        self.answer_len = answer_len or 1
        self.edges = RATIO_EDGES
        self.sum_of_rows = ops.ReduceSum(keep_dims=True)
        self.lowest_ratio = 1.0 - clip_low
        self.highest_ratio = 1.0 + clip_high
        self.has_dual_clip = dual_clip is not None
        self.dual_clip = dual_clip or 0.0
        self.entropy_coef = entropy_coef
        self.kl_coef = kl_coef

    def construct(
        self,
        logp: Tensor,
        old_logp: Tensor,
        ref_logp: Tensor,
        advantage: Tensor,
        entropy: Tensor,
        weight: Tensor,
    ) -> tuple[Tensor, ...]:
        """Sum the weighted loss of the response tokens. All inputs have one shape, (B, R) or (B * R,).

        Args:
            logp: float32, log-probabilities under the policy being trained.
            old_logp: float32, under the policy that sampled.
            ref_logp: float32, under the reference; unused when ``kl_coef`` is 0.
            advantage: float32.
            entropy: float32, entropy of the policy at the token.
            weight: float32, of each token's loss; above 0 on the response tokens that count, 0 elsewhere.

        Returns:
            ``(loss_sum, count, outside_sum, kl_old_new_sum, entropy_sum, ratio_sum, off_ratio_sum, *below_sums)``:
            scalars float32. loss_sum is weighted; the others are over tokens of a weight above 0, each once:
            outside_sum counts ratios beyond the clip range, kl_old_new_sum is k3 = rho - 1 - log rho, off_ratio_sum
            (rho - 1)^2, and each of below_sums counts ratios up to one of ``RATIO_EDGES``.
        """
        counted = ops.cast(weight > 0.0, logp.dtype)
        log_ratio = ops.clip_by_value(logp - old_logp, -MAX_LOG_RATIO, MAX_LOG_RATIO)
        if self.has_one_ratio:
            log_ratio = self.of_answers(log_ratio, counted)
        ratio = ops.exp(log_ratio)
        bounded_ratio = ops.clip_by_value(ratio, self.lowest_ratio, self.highest_ratio)
        loss = ops.maximum(-advantage * ratio, -advantage * bounded_ratio)
        if self.has_dual_clip:
            loss = ops.select(advantage < 0.0, ops.minimum(loss, -self.dual_clip * advantage), loss)
        if self.entropy_coef > 0.0:
            loss = loss - self.entropy_coef * entropy
        if self.kl_coef > 0.0:
            loss = loss + self.kl_coef * 0.5 * ops.square(logp - ref_logp)
        outside = ops.cast(ops.not_equal(ratio, bounded_ratio), logp.dtype)
        return (
            ops.reduce_sum(loss * weight),
            ops.reduce_sum(counted),
            ops.reduce_sum(outside * counted),
            ops.reduce_sum((ratio - 1.0 - log_ratio) * counted),
            ops.reduce_sum(entropy * counted),
            ops.reduce_sum(ratio * counted),
            ops.reduce_sum(ops.square(ratio - 1.0) * counted),
        ) + self.below_edges(ratio, counted)

    def below_edges(self, ratio: Tensor, counted: Tensor) -> tuple[Tensor, ...]:
        """How many ratios are at most as large as each edge of the histogram.

        Args:
            ratio: float32.
            counted: its shape, 1 on tokens that count.

        Returns:
            A scalar float32 for each of ``RATIO_EDGES``.
        """
        sums = ()
        for edge in self.edges:
            sums = (*sums, ops.reduce_sum(ops.cast(ratio <= edge, ratio.dtype) * counted))
        return sums

    def of_answers(self, log_ratio: Tensor, counted: Tensor) -> Tensor:
        """The mean over an answer's tokens, at each of them.

        Args:
            log_ratio: (B, R) or (B * R,) float32.
            counted: its shape, 1 on tokens that count.

        Returns:
            The same shape, float32.
        """
        log_ratio_BR = ops.reshape(log_ratio * counted, (-1, self.answer_len))
        counted_BR = ops.reshape(counted, (-1, self.answer_len))
        length_B1 = ops.maximum(self.sum_of_rows(counted_BR, 1), 1.0)
        mean_B1 = self.sum_of_rows(log_ratio_BR, 1) / length_B1
        return ops.reshape(mean_B1 * ops.ones_like(log_ratio_BR), log_ratio.shape)


class ValueLoss(nn.Cell):
    """0.5 max((V - R)^2, (clip(V, V_old - eps, V_old + eps) - R)^2) over response tokens.

    The value clipping of the reference PPO implementation (Engstrom et al. 2020, section 3).

    Args:
        value_clip: range eps the new value may leave the old one by; None is the plain squared error.
    """

    def __init__(self, value_clip: float | None = None) -> None:
        super().__init__()
        self.has_clip = value_clip is not None
        self.value_clip = value_clip or 0.0

    def construct(
        self, value: Tensor, old_value: Tensor, returns: Tensor, response_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Sum the loss of the response tokens. All inputs have one shape, (B, R) or (N,).

        Args:
            value: float32, the critic's estimate before each token.
            old_value: float32, its estimate when the answer was sampled; unused without ``value_clip``.
            returns: float32, the target.
            response_mask: float32, 1 on real response tokens.

        Returns:
            ``(loss_sum, count)``: scalars float32.
        """
        error = ops.square(value - returns)
        if self.has_clip:
            near = old_value + ops.clip_by_value(value - old_value, -self.value_clip, self.value_clip)
            error = ops.maximum(error, ops.square(near - returns))
        return 0.5 * ops.reduce_sum(error * response_mask), ops.reduce_sum(response_mask)
