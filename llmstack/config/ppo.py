"""Options of PPO."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.markers import AnyModelRef
from llmstack.config.online import OnlineConfig


class CriticConfig(Strict):
    """The value model."""

    init_from: AnyModelRef | None = None
    """A stage's name or a model folder; null takes the policy's ``init_from``."""
    lr: float = Field(gt=0)
    """Its own peak learning rate; the rest is the stage's ``optim``."""
    value_clip: float | None = Field(default=0.2, gt=0)
    """Range the new value may leave the old one by; null does not clip."""
    warmup_iterations: int = Field(default=0, ge=0)
    """First iterations in which only the critic learns."""


class PpoConfig(OnlineConfig):
    """PPO from a reward, with KL to a reference."""

    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """GAE's lambda."""
    whiten_advantages: bool = True
    """Mean 0 and variance 1 over all real tokens of the iteration."""
    truncated: Literal["bootstrap", "penalty"] = "bootstrap"
    """An answer cut off by ``response_len``: continue it by its value, or score it as ``missing_eos_score``."""
    missing_eos_score: float | None = None
    """penalty: replaces the score of a cut-off answer."""
    critic: CriticConfig
    """The value model."""

    @model_validator(mode="after")
    def _check_truncated(self) -> Self:
        problems = {}
        if self.truncated == "penalty" and self.missing_eos_score is None:
            problems["missing_eos_score"] = (
                "expected a score because `truncated` is penalty, got nothing. Add it, e.g. -1.0."
            )
        if self.truncated != "penalty" and self.missing_eos_score is not None:
            problems["missing_eos_score"] = (
                f"expected nothing because `truncated` is {self.truncated}, got {self.missing_eos_score:g}. "
                "Remove it, or set `truncated: penalty`."
            )
        reject(self, problems)
        return self
