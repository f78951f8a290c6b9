"""Log-probabilities of whole answers, and what the preference stage descends."""

from __future__ import annotations

from mindspore import Tensor, nn, ops
from mindspore import dtype as mstype

from llmstack.models.causal_lm import CausalLM
from llmstack.stages.scoring import TargetLogProbs


class AnswerLogProbs(nn.Cell):
    """Log-probability of each row's answer: the sum over its tokens, at temperature 1.

    Args:
        model: the language model.
    """

    def __init__(self, model: CausalLM) -> None:
        super().__init__(auto_prefix=False)
        self.logp = TargetLogProbs(model)

    def construct(
        self,
        tokens_RT: Tensor,
        positions_RT: Tensor,
        segments_RT: Tensor,
        targets_C: Tensor,
        labels_C: Tensor,
        rows_C: Tensor,
    ) -> Tensor:
        """Score the answers.

        Args:
            tokens_RT: (R, T) int32.
            positions_RT: (R, T) int32.
            segments_RT: (R, T) int32.
            targets_C: (C,) int32, the position before each answer token, as an index into the R*T positions.
            labels_C: (C,) int32, the answer tokens.
            rows_C: (C,) int32, the row each belongs to; R for fillers.

        Returns:
            (R,) float32, in nats.
        """
        one = ops.ones((1,), mstype.float32)
        logp_C, _ = self.logp(tokens_RT, positions_RT, segments_RT, targets_C, labels_C, one)
        # a filler's row is none of the R, so that its column of ones is empty
        owner_CR = ops.one_hot(rows_C, tokens_RT.shape[0], Tensor(1.0, mstype.float32), Tensor(0.0, mstype.float32))
        return ops.reduce_sum(ops.reshape(logp_C, (-1, 1)) * owner_CR, 0)


class PreferenceObjective(nn.Cell):
    """Mean preference loss over pairs, or over single answers.

    Args:
        model: the policy.
        loss: a preference loss (see :mod:`llmstack.losses.preference`).
    """

    def __init__(self, model: CausalLM, loss: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.logp = AnswerLogProbs(model)
        self.loss = loss

    def construct(  # noqa: PLR0913 - the inputs of a graph
        self,
        inv_count: Tensor,
        tokens_RT: Tensor,
        positions_RT: Tensor,
        segments_RT: Tensor,
        targets_C: Tensor,
        labels_C: Tensor,
        rows_C: Tensor,
        ref_logp_R: Tensor,
        answer_tokens_R: Tensor,
        good_R: Tensor,
        baseline: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """This micro-batch's share of the mean.

        Args:
            inv_count: () float32, 1 over the pairs (or answers) of all micro-batches.
            tokens_RT: (R, T) int32, of pairs all chosen answers, then all rejected ones.
            positions_RT: (R, T) int32.
            segments_RT: (R, T) int32.
            targets_C: (C,) int32, as in :class:`AnswerLogProbs`.
            labels_C: (C,) int32.
            rows_C: (C,) int32.
            ref_logp_R: (R,) float32, the reference's log-probability of each answer.
            answer_tokens_R: (R,) float32, tokens of each answer.
            good_R: (R,) float32, 1 for chosen or good answers, 0 for the others.
            baseline: () float32, KTO's z0.

        Returns:
            ``(loss, right, reward_good, reward_bad, logp_good, logp_bad, drift)``: () float32, sums times
            ``inv_count``; drift sums the log-ratios of all answers.
        """
        logp_R = self.logp(tokens_RT, positions_RT, segments_RT, targets_C, labels_C, rows_C)
        total, right, reward_R = self.loss(logp_R, ref_logp_R, answer_tokens_R, good_R, baseline)
        bad_R = 1.0 - good_R
        return (
            total * inv_count,
            right * inv_count,
            ops.reduce_sum(reward_R * good_R) * inv_count,
            ops.reduce_sum(reward_R * bad_R) * inv_count,
            ops.reduce_sum(logp_R * good_R) * inv_count,
            ops.reduce_sum(logp_R * bad_R) * inv_count,
            ops.reduce_sum(logp_R - ref_logp_R) * inv_count,
        )
