"""What a student descends: teacher and student read the same rows in one graph."""

from __future__ import annotations

from mindspore import Tensor, nn

from llmstack.losses.cross_entropy import MaskedCrossEntropy
from llmstack.losses.distill import DistillationLoss
from llmstack.models.causal_lm import CausalLM
from llmstack.stages.scoring import TargetLogits


class DistillObjective(nn.Cell):
    """hard_weight times the next-token loss, plus soft_weight times the divergence; means over the trained tokens.

    Args:
        student: the model that learns.
        teacher: the frozen one.
        soft: divergence of the two.
        hard: next-token loss.
        soft_weight: of the divergence.
        hard_weight: of the next-token loss; with 0 it is measured and not descended.
    """

    def __init__(
        self,
        student: CausalLM,
        teacher: CausalLM,
        *,
        soft: DistillationLoss,
        hard: MaskedCrossEntropy,
        soft_weight: float,
        hard_weight: float,
    ) -> None:
        super().__init__(auto_prefix=False)
        self.student, self.teacher = TargetLogits(student), TargetLogits(teacher)
        self.soft, self.hard = soft, hard
        self.soft_weight, self.hard_weight = soft_weight, hard_weight

    def construct(
        self,
        inv_count: Tensor,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        targets_C: Tensor,
        labels_C: Tensor,
        mask_C: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
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
            ``(loss, hard, soft)``: () float32, the two parts without their weights.
        """
        student_CV = self.student(tokens_BT, positions_BT, segments_BT, targets_C)
        teacher_CV = self.teacher(tokens_BT, positions_BT, segments_BT, targets_C)
        soft, _ = self.soft(teacher_CV, student_CV, mask_C)
        hard, _ = self.hard(student_CV, labels_C, mask_C)
        loss = self.soft_weight * soft + self.hard_weight * hard
        return loss * inv_count, hard * inv_count, soft * inv_count


class AnswerObjective(nn.Cell):
    """Mean divergence over the tokens of the student's own answers; no gradient passes through what was sampled.

    Args:
        student: the model that learns.
        teacher: the frozen one.
        soft: divergence of the two.
    """

    def __init__(self, student: CausalLM, teacher: CausalLM, *, soft: DistillationLoss) -> None:
        super().__init__(auto_prefix=False)
        self.student, self.teacher = TargetLogits(student), TargetLogits(teacher)
        self.soft = soft

    def construct(
        self,
        inv_count: Tensor,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        targets_C: Tensor,
        mask_C: Tensor,
    ) -> tuple[Tensor]:
        """This micro-batch's share of the mean.

        Args:
            inv_count: () float32, 1 over the answers' tokens of all micro-batches.
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32.
            targets_C: (C,) int32, the position before each token of the answers.
            mask_C: (C,) float32, 1 on real tokens.

        Returns:
            ``(loss,)``: () float32.
        """
        student_CV = self.student(tokens_BT, positions_BT, segments_BT, targets_C)
        teacher_CV = self.teacher(tokens_BT, positions_BT, segments_BT, targets_C)
        soft, _ = self.soft(teacher_CV, student_CV, mask_C)
        return (soft * inv_count,)
