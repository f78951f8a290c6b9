"""Options of offline preference learning, and of each of its losses."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.data import AnySource
from llmstack.config.markers import LanguageModelRef
from llmstack.config.named import NameIn, Registered
from llmstack.config.rewards import AnyReward
from llmstack.config.stages import BucketRowsConfig, SampleConfig
from llmstack.registry import PREFERENCE_LOSSES

TAKEN_NAMES = frozenset(
    {"loss", "accuracy", "margin", "reward_chosen", "reward_rejected", "logp_chosen", "logp_rejected", "drift"}
    | {"baseline", "response_tokens", "finished_ratio", "prompts"}
)
"""What evaluation reports anyway."""


class PreferenceLossConfig(Strict):
    """Base of every preference loss's options; subclasses add theirs."""

    needs_reference: ClassVar[bool] = True
    """The loss compares with the log-probabilities of a reference."""
    paired: ClassVar[bool] = True
    """The loss compares two answers to one prompt; else it takes single answers with a label."""

    name: Annotated[str, NameIn(PREFERENCE_LOSSES)]
    """Name in the registry of preference losses."""


AnyPreferenceLoss: TypeAlias = Annotated[PreferenceLossConfig, Registered(PREFERENCE_LOSSES, "name")]
"""Options of any registered preference loss."""


class SigmoidConfig(PreferenceLossConfig):
    """DPO: a logistic loss of the lead in reward."""

    beta: float = Field(default=0.1, gt=0)
    """How strongly the policy is held near the reference; an answer's reward is beta times its log-ratio."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """Share of pairs believed to be the wrong way round (conservative DPO)."""


class RobustConfig(PreferenceLossConfig):
    """DPO whose mean is not biased by wrong labels."""

    beta: float = Field(default=0.1, gt=0)
    """As in sigmoid."""
    label_smoothing: float = Field(gt=0, lt=0.5)
    """Share of pairs believed to be the wrong way round."""


class HingeConfig(PreferenceLossConfig):
    """A hinge in place of the logistic loss."""

    beta: float = Field(default=0.1, gt=0)
    """As in sigmoid."""


class IpoConfig(PreferenceLossConfig):
    """IPO: a squared distance to a fixed lead."""

    beta: float = Field(default=0.1, gt=0)
    """The paper's tau: log-ratios are drawn to a lead of 1 / (2 beta)."""
    average: bool = False
    """Log-ratios are means over an answer's tokens, not the paper's sums."""


class OrpoConfig(PreferenceLossConfig):
    """ORPO: learns the chosen answer and an odds ratio, without reference."""

    needs_reference: ClassVar[bool] = False

    weight: float = Field(default=0.1, gt=0)
    """The paper's lambda: weight of the odds ratio beside the language-model loss of the chosen answer."""


class SimpoConfig(PreferenceLossConfig):
    """SimPO: mean log-probabilities as rewards, without reference."""

    needs_reference: ClassVar[bool] = False

    beta: float = Field(default=2.0, gt=0)
    """An answer's reward is beta times its mean log-probability."""
    gamma: float = Field(default=1.0, ge=0)
    """Lead in reward that the chosen answer should have."""


class KtoConfig(PreferenceLossConfig):
    """KTO: single answers with a label."""

    paired: ClassVar[bool] = False

    beta: float = Field(default=0.1, gt=0)
    """As in sigmoid."""
    good_weight: float = Field(default=1.0, gt=0)
    """The paper's lambda_D. Times the number of good answers it should be 1 to 1.5 times the same of bad ones."""
    bad_weight: float = Field(default=1.0, gt=0)
    """The paper's lambda_U."""


class PreferenceConfig(BucketRowsConfig):
    """A policy from answers that were compared or judged, without sampling.

    ``batch_rows`` is pairs, or answers for a loss that takes single ones.
    """

    loss: AnyPreferenceLoss
    """What is descended."""
    reference: LanguageModelRef | None = None
    """Stage or folder of the reference, for the losses that have one; null takes ``init_from``."""
    samples: SampleConfig
    """Answers to evaluation prompts, kept and measured by the yardsticks at each evaluation."""
    sample_data: AnySource | None = None
    """Prompts of the samples; null takes those of ``eval_data``."""
    yardsticks: dict[str, AnyReward] = Field(default_factory=dict)
    """Rewards of the samples, reported as ``eval/<name>`` and never trained on."""

    @property
    def reference_source(self) -> str | None:
        """Where the reference comes from; None when the loss has none."""
        return (self.reference or self.init_from) if self.loss.needs_reference else None

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        problems = {}
        if self.init_from is None:
            problems["init_from"] = (
                "expected a model to start from, got nothing: there is no preference among random answers. Name an "
                "earlier stage, e.g. the one of kind sft, or a model folder."
            )
        if self.reference is not None and not self.loss.needs_reference:
            problems["reference"] = (
                f"expected nothing because loss {self.loss.name} has no reference, got {self.reference!r}. Remove it, "
                "or choose a loss that has one, e.g. sigmoid."
            )
        if self.lora is not None and self.lora.adapter and self.reference is None and self.loss.needs_reference:
            problems["reference"] = (
                "expected a model because `lora.adapter` changes the one of `init_from`, got nothing: the reference "
                "would be the model without the adapter. Merge it first (docs/lora.md) and name the merged folder."
            )
        reject(self, problems)
        return self

    @model_validator(mode="after")
    def _check_yardsticks(self) -> Self:
        taken = sorted(set(self.yardsticks) & TAKEN_NAMES)
        problems = {}
        if taken:
            problems["yardsticks"] = f"expected names of your own, got {taken}, measured anyway. Choose others."
        elif self.yardsticks and not self.samples.prompts:
            problems["samples.prompts"] = "expected some because there are `yardsticks`, got 0. Raise it."
        reject(self, problems)
        return self
