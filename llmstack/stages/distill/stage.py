"""Distillation on data: a student learns the tokens of packed rows, and the teacher's distribution at each."""

from __future__ import annotations

from typing import ClassVar, cast

from mindspore import nn

from llmstack.config.data import SourceConfig
from llmstack.config.distill import DistillConfig
from llmstack.data.packed_rows import PackedRows
from llmstack.losses.cross_entropy import MaskedCrossEntropy
from llmstack.optim.updater import UpdateReport
from llmstack.stages.distill.objective import DistillObjective
from llmstack.stages.distill.teacher import load_teacher, soft_loss
from llmstack.stages.language import LanguageStage
from llmstack.stages.pretrain import document_openings
from llmstack.stages.scoring import TargetLogProbs
from llmstack.stages.sft import conversation_openings


class DistillStage(LanguageStage):
    """A student that learns from a teacher on packed rows."""

    kind: ClassVar[str] = "distill"
    config: DistillConfig

    def build_models(self) -> None:
        """Student and teacher."""
        super().build_models()
        self.teacher = load_teacher(self, self.config.teacher, self.model)

    def build_loss(self) -> None:
        """Both losses, the student's optimizer and the Cells that evaluate."""
        super().build_loss()
        self.teacher_scorer = TargetLogProbs(self.teacher)
        self._teacher_loss: float | None = None

    def objective(self) -> nn.Cell:
        """Next-token loss and divergence from the teacher."""
        config = self.config
        return DistillObjective(
            self.model,
            self.teacher,
            soft=soft_loss(config.divergence, self.model, f"stages.{self.context.name}.divergence"),
            hard=MaskedCrossEntropy(config.z_loss),
            soft_weight=config.soft_weight,
            hard_weight=config.hard_weight,
        )

    def measured(self, report: UpdateReport) -> dict[str, float]:
        """The two parts of the loss, without their weights.

        Args:
            report: what the step did.
        """
        hard, soft = report.metrics
        return {"train/hard_loss": hard, "train/soft_loss": soft}

    def rows(self, source: SourceConfig) -> PackedRows:
        """Documents or conversations, packed.

        Args:
            source: a data option.
        """
        return cast(PackedRows, self.context.corpus.rows(self.config, source))

    def sample_prompts(self, count: int) -> list[list[int]]:
        """Beginnings of evaluation documents, or evaluation conversations up to their first answer.

        Args:
            count: how many.
        """
        openings = document_openings if self.config.data_kind == "text" else conversation_openings
        return openings(self.context.corpus, self.config.eval_data, count)

    def evaluate(self) -> dict[str, float]:
        """The student's loss and perplexity, the teacher's loss on the same rows, and the gap between the two."""
        metrics = super().evaluate()
        if self._teacher_loss is None:
            sums = [self.summed_loss(batches, self.teacher_scorer) for batches in self.eval_batches.values()]
            total, count = (sum(values) for values in zip(*sums, strict=True))
            self._teacher_loss = total / max(count, 1.0)
        gap = metrics["eval/loss"] - self._teacher_loss
        return metrics | {"eval/teacher_loss": self._teacher_loss, "eval/loss_gap": gap}
