"""How far a student's next-token distribution is from its teacher's, softened by a temperature.

With z the logits, p = softmax(z_teacher / T), q = softmax(z_student / T), each position contributes ``T^2 D(p, q)``:
gradients of D shrink as 1 / T^2, so the factor keeps soft and hard losses in proportion when T is changed (Hinton et
al. 2015, section 2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal

from mindspore import Tensor, nn, ops

FAR_BELOW = -1e9
"""Added to a logit it makes its probability exactly 0 in float32, while differences with it stay finite."""


class Divergence(nn.Cell, ABC):
    """A divergence of distributions given as log-probabilities, position by position."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = ops.ReduceSum()

    @abstractmethod
    def construct(self, teacher_logp_NV: Tensor, student_logp_NV: Tensor) -> Tensor:
        """Measure.

        Args:
            teacher_logp_NV: (N, V) float32, log p.
            student_logp_NV: (N, V) float32, log q.

        Returns:
            (N,) float32, in nats, never negative but for rounding.
        """


class ForwardKl(Divergence):
    """KL(p || q) = sum_v p (log p - log q): the student must cover whatever the teacher may say.

    Hinton et al. 2015, section 2: the cross-entropy with soft targets, less the teacher's entropy, a constant.
    """

    def construct(self, teacher_logp_NV: Tensor, student_logp_NV: Tensor) -> Tensor:
        """Measure; see the base.

        Args:
            teacher_logp_NV: (N, V) float32, log p.
            student_logp_NV: (N, V) float32, log q.

        Returns:
            (N,) float32, in nats.
        """
        return self.sum(ops.exp(teacher_logp_NV) * (teacher_logp_NV - student_logp_NV), -1)


class ReverseKl(Divergence):
    """KL(q || p) = sum_v q (log q - log p): the student must not say what the teacher would not.

    Gu et al. 2024 (MiniLLM), equation 1, token by token.
    """

    def construct(self, teacher_logp_NV: Tensor, student_logp_NV: Tensor) -> Tensor:
        """Measure; see the base.

        Args:
            teacher_logp_NV: (N, V) float32, log p.
            student_logp_NV: (N, V) float32, log q.

        Returns:
            (N,) float32, in nats.
        """
        return self.sum(ops.exp(student_logp_NV) * (student_logp_NV - teacher_logp_NV), -1)


class JensenShannon(Divergence):
    """beta KL(p || m) + (1 - beta) KL(q || m) with m = beta p + (1 - beta) q (Agarwal et al. 2024, GKD, equation 1).

    Bounded by log 2 at beta = 1/2; divided by beta it tends to KL(p || q) as beta goes to 0, and divided by 1 - beta to
    KL(q || p) as beta goes to 1.

    Args:
        beta: the teacher's share of the mixture, between 0 and 1.
    """

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta
        self.log_beta, self.log_rest = math.log(beta), math.log1p(-beta)

    def construct(self, teacher_logp_NV: Tensor, student_logp_NV: Tensor) -> Tensor:
        """Measure; see the base.

        Args:
            teacher_logp_NV: (N, V) float32, log p.
            student_logp_NV: (N, V) float32, log q.

        Returns:
            (N,) float32, in nats.
        """
        a_NV, b_NV = teacher_logp_NV + self.log_beta, student_logp_NV + self.log_rest
        high_NV = ops.maximum(a_NV, b_NV)
        mixed_NV = high_NV + ops.log(1.0 + ops.exp(ops.minimum(a_NV, b_NV) - high_NV))
        from_teacher_N = self.sum(ops.exp(teacher_logp_NV) * (teacher_logp_NV - mixed_NV), -1)
        from_student_N = self.sum(ops.exp(student_logp_NV) * (student_logp_NV - mixed_NV), -1)
        return self.beta * from_teacher_N + (1.0 - self.beta) * from_student_N


DivergenceName = Literal["forward_kl", "reverse_kl", "jensen_shannon"]


def divergence(name: DivergenceName, beta: float | None = None) -> Divergence:
    """The Cell of a divergence.

    Args:
        name: which.
        beta: the teacher's share of the mixture; of jensen_shannon alone.

    Raises:
        ValueError: jensen_shannon without a beta.
    """
    if name == "jensen_shannon":
        if beta is None:
            raise ValueError("divergence: expected a beta for jensen_shannon, got None. Pass the teacher's share.")
        return JensenShannon(beta)
    return ForwardKl() if name == "forward_kl" else ReverseKl()


class WholeVocabulary(nn.Cell):
    """log softmax of both sides' logits."""

    def __init__(self) -> None:
        super().__init__()
        self.log_softmax = ops.LogSoftmax(-1)

    def construct(self, teacher_NV: Tensor, student_NV: Tensor) -> tuple[Tensor, Tensor]:
        """Normalise.

        Args:
            teacher_NV: (N, V) float32, logits / T.
            student_NV: (N, V) float32.

        Returns:
            ``(teacher_logp_NV, student_logp_NV)`` float32.
        """
        return self.log_softmax(teacher_NV), self.log_softmax(student_NV)


class TopTokens(nn.Cell):
    """Log-probabilities of the teacher's ``top_k`` likeliest tokens and of all others together, on both sides.

    The remainder is one bucket, so that both are distributions over k + 1 outcomes: the student pays for probability
    anywhere else, but not for how it is spread there. With k = V the bucket is empty and nothing is lost; by the data
    processing inequality the divergence is never larger than that of the whole vocabulary.

    Args:
        top_k: tokens kept of each position.
    """

    def __init__(self, top_k: int) -> None:
        super().__init__()
        self.top_k = top_k
        self.top = ops.TopK(sorted=True)
        self.pick = ops.GatherD()
        self.log_softmax = ops.LogSoftmax(-1)
        self.max = ops.ReduceMax(keep_dims=True)
        self.sum = ops.ReduceSum(keep_dims=True)
        self.join = ops.Concat(-1)

    def construct(self, teacher_NV: Tensor, student_NV: Tensor) -> tuple[Tensor, Tensor]:
        """Sort into buckets.

        Args:
            teacher_NV: (N, V) float32, logits / T.
            student_NV: (N, V) float32.

        Returns:
            ``(teacher_logp_NK, student_logp_NK)`` float32 (N, k + 1), the remainder last.
        """
        top_NK, index_NK = self.top(teacher_NV, self.top_k)
        ones_NK = ops.ones_like(top_NK)
        kept_NV = ops.tensor_scatter_elements(ops.zeros_like(teacher_NV), index_NK, ones_NK, 1)
        hidden_NV = ops.stop_gradient(kept_NV) * FAR_BELOW
        teacher_NK = self.join((top_NK, self._log_sum(teacher_NV + hidden_NV)))
        student_NK = self.join((self.pick(student_NV, 1, index_NK), self._log_sum(student_NV + hidden_NV)))
        return self.log_softmax(teacher_NK), self.log_softmax(student_NK)

    def _log_sum(self, values_NV: Tensor) -> Tensor:
        high_N1 = ops.stop_gradient(self.max(values_NV, -1))
        return high_N1 + ops.log(self.sum(ops.exp(values_NV - high_N1), -1))


class DistillationLoss(nn.Cell):
    """sum_i mask_i T^2 D(softmax(z_teacher_i / T), softmax(z_student_i / T)); see the module.

    Args:
        measure: the divergence D.
        temperature: T.
        top_k: teacher's tokens that are told apart; None: all.
    """

    def __init__(self, measure: Divergence, *, temperature: float, top_k: int | None = None) -> None:
        super().__init__()
        self.measure = measure
        self.log_probs = WholeVocabulary() if top_k is None else TopTokens(top_k)
        self.temperature, self.scale = temperature, temperature**2

    def construct(self, teacher_NV: Tensor, student_NV: Tensor, mask_N: Tensor) -> tuple[Tensor, Tensor]:
        """Sum the loss of the trained positions; no gradient reaches the teacher.

        Args:
            teacher_NV: (N, V) float32, logits.
            student_NV: (N, V) float32, logits.
            mask_N: (N,) float32, 1 where the position is trained.

        Returns:
            ``(loss_sum, count)``: scalars float32; count is the sum of the mask.
        """
        teacher_NV = ops.stop_gradient(teacher_NV)
        teacher_logp, student_logp = self.log_probs(teacher_NV / self.temperature, student_NV / self.temperature)
        loss_N = self.scale * self.measure(teacher_logp, student_logp)
        return ops.reduce_sum(loss_N * mask_N), ops.reduce_sum(mask_N)
