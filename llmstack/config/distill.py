"""Options of distillation: a student that learns from a teacher's distributions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.markers import LanguageModelRef
from llmstack.config.online import RolloutConfig
from llmstack.config.stages import RowStageConfig


class DivergenceConfig(Strict):
    """How far the student's next-token distribution is from the teacher's."""

    kind: Literal["forward_kl", "reverse_kl", "jensen_shannon"]
    """forward_kl: KL(teacher || student); reverse_kl: KL(student || teacher); jensen_shannon: both to a mixture."""
    beta: float | None = Field(default=None, gt=0, lt=1)
    """jensen_shannon: the teacher's share of the mixture; 0.5 treats both alike."""
    temperature: float = Field(default=1.0, gt=0)
    """T, by which both sides' logits are divided; the divergence is multiplied by T^2."""
    top_k: int | None = Field(default=None, gt=0)
    """Tokens the teacher finds likeliest that are told apart, all others being one; null: the whole vocabulary."""

    @model_validator(mode="after")
    def _check_beta(self) -> Self:
        if self.kind == "jensen_shannon" and self.beta is None:
            reject(self, {"beta": "expected a share because `kind` is jensen_shannon, got nothing. Add it, e.g. 0.5."})
        if self.kind != "jensen_shannon" and self.beta is not None:
            text = f"expected nothing because `kind` is {self.kind}, got {self.beta:g}."
            reject(self, {"beta": f"{text} Remove it, or set `kind: jensen_shannon`."})
        return self


class DistillConfig(RowStageConfig):
    """A student trained on packed rows, on their tokens and on the teacher's distribution at each."""

    teacher: LanguageModelRef
    """The stage or folder of the model learnt from; its vocabulary is the student's."""
    data_kind: Literal["text", "chat"]
    """text: documents, of which every token is trained, as in pretraining; chat: conversations, of which the
    assistant's tokens are, as in fine-tuning."""
    divergence: DivergenceConfig
    """The soft loss: how far the student is from the teacher."""
    soft_weight: float = Field(gt=0)
    """Weight of the soft loss."""
    hard_weight: float = Field(ge=0)
    """Weight of the cross-entropy with the data's own tokens."""
    max_untrained_ratio: float = Field(default=0.05, ge=0, le=1)
    """Share of rows with nothing to train (cut off or too long) above which the run is refused."""

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if self.hard_weight == 0 and self.z_loss > 0:
            text = f"expected 0 because `hard_weight` is 0 and the term is part of the hard loss, got {self.z_loss:g}."
            reject(self, {"z_loss": f"{text} Remove it, or raise hard_weight."})
        return self


class DistillOnlineConfig(RolloutConfig):
    """A student that answers prompts and learns the teacher's distribution at each token of its own answers."""

    teacher: LanguageModelRef
    """The stage or folder of the model learnt from; its vocabulary is the student's."""
    divergence: DivergenceConfig
    """How far the student is from the teacher at a token."""
