"""Options of PPO."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.data import AnySource
from llmstack.config.markers import AnyModelRef
from llmstack.config.online import OnlineConfig

_VALUE_COEF = 0.5


class CriticConfig(Strict):
    """The value model."""

    trunk: Literal["separate", "shared"] = "separate"
    """separate: a model of its own; shared: a value head on the policy's trunk, which both losses then train."""
    init_from: AnyModelRef | None = None
    """separate: a stage's name or a model folder; null takes the policy's ``init_from``."""
    lr: float | None = Field(default=None, gt=0)
    """separate: its own peak learning rate; null takes that of the stage's ``optim``, as does the rest."""
    coef: float = Field(default=_VALUE_COEF, gt=0)
    """shared: weight of the value loss beside the policy loss."""
    value_clip: float | None = Field(default=0.2, gt=0)
    """Range the new value may leave the old one by; null does not clip."""
    warmup_iterations: int = Field(default=0, ge=0)
    """separate: first iterations in which only the critic learns."""

    @model_validator(mode="after")
    def _check_trunk(self) -> Self:
        problems = {}
        if self.trunk == "separate" and self.coef != _VALUE_COEF:
            problems["coef"] = f"expected nothing because `trunk` is separate, got {self.coef:g}. Remove it."
        foreign = {"init_from": None, "lr": None, "warmup_iterations": 0}
        for key, unset in foreign.items() if self.trunk == "shared" else ():
            if getattr(self, key) != unset:
                got = getattr(self, key)
                problems[key] = f"expected {unset} because `trunk` is shared, got {got}. Remove it."
        reject(self, problems)
        return self


class ScoresConfig(Strict):
    """What is done with the scores of answers before they are rewards; reported scores stay as they are."""

    normalise: Literal["none", "running"] = "none"
    """running: divide by the standard deviation of all scores of the stage so far; the sign keeps its meaning."""
    clip: float | None = Field(default=None, gt=0)
    """Then keep each score between -clip and clip; null does not."""


class PretrainingConfig(Strict):
    """Text the policy goes on predicting while it learns from the reward (PPO-ptx), so that it unlearns less."""

    data: AnySource
    """The text."""
    data_kind: Literal["text", "chat"] = "text"
    """text: documents, of which every token is trained; chat: conversations, of which the assistant's tokens are."""
    coef: float = Field(gt=0)
    """Weight of the mean loss of a text's token beside the policy loss."""
    seq_len: int = Field(gt=1)
    """Tokens T in a row of text."""
    batch_rows: int = Field(gt=0)
    """Rows of text in each optimizer step; a multiple of ``accumulate``."""
    max_untrained_ratio: float = Field(default=0.05, ge=0, le=1)
    """chat: share of conversations with nothing to train (cut off or too long) above which the run is refused."""


class PpoConfig(OnlineConfig):
    """PPO from a reward, with KL to a reference."""

    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """GAE's lambda."""
    scores: ScoresConfig = Field(default_factory=ScoresConfig)
    """How scores become rewards."""
    whiten_rewards: bool = False
    """Divide the rewards of tokens (scores and KL costs) by their deviation over the iteration; the mean stays."""
    whiten_advantages: bool = True
    """Mean 0 and variance 1 over all real tokens of the iteration."""
    truncated: Literal["bootstrap", "penalty", "mask", "drop"] = "bootstrap"
    """An answer cut off by ``response_len`` goes on by its value (bootstrap), ends with ``missing_eos_score``
    (penalty), has no loss but is in the statistics that whiten (mask), or is out of both (drop)."""
    missing_eos_score: float | None = None
    """penalty: replaces the score of a cut-off answer."""
    pretraining: PretrainingConfig | None = None
    """A language loss on further text in each update of the policy; null is off."""
    critic: CriticConfig
    """The value model."""

    @property
    def longest_row(self) -> int:
        """The longest prompt with the longest answer, or a row of text."""
        return max(super().longest_row, self.pretraining.seq_len if self.pretraining else 0)

    @model_validator(mode="after")
    def _check_pretraining(self) -> Self:
        if self.pretraining is not None and (rows := self.pretraining.batch_rows) % self.accumulate:
            text = f"expected batch_rows to be a multiple of accumulate ({self.accumulate}), got {rows}."
            reject(self, {"pretraining": f"{text} Change one of the two."})
        return self

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
