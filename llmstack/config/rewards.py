"""Options of the rewards: what scores an answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.markers import FunctionRef, RewardModelRef
from llmstack.config.named import NameIn, Registered
from llmstack.config.regexes import RegexText
from llmstack.registry import REWARDS


class RewardSourceConfig(Strict):
    """Base of every reward's options; subclasses add theirs."""

    kind: Annotated[str, NameIn(REWARDS)]
    """Name in the reward registry."""


class ModelRewardConfig(RewardSourceConfig):
    """A trained reward model."""

    from_: RewardModelRef = Field(alias="from")
    """A reward stage's name or a model folder."""
    normalise: bool = False
    """Give (score - mean) / deviation, with the mean and deviation that were measured when the model was trained."""


class FunctionRewardConfig(RewardSourceConfig):
    """A Python function of the user's: it takes a RewardBatch and gives a number (or None) for each answer."""

    function: FunctionRef
    """``package.module:name``, of a module under ``plugins`` or an installed one."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the function, by name."""


class StepsRewardConfig(FunctionRewardConfig):
    """A function that scores the steps of an answer: each score is earned at the token that ends its step."""

    split: RegexText = r"\n\s*\n"
    """What stands between two steps, a regular expression; a blank line unless it is set."""
    aggregate: Literal["mean", "sum"] = "mean"
    """The score of an answer: the mean of its steps' scores, or their sum, which pays for more steps."""


AnyReward: TypeAlias = Annotated[RewardSourceConfig, Registered(REWARDS, "kind")]
"""Options of any registered reward."""


class RewardPartConfig(Strict):
    """One reward among several."""

    weight: float = 1.0
    """Its weight in the sum; negative for a penalty."""
    clip: tuple[float, float] | None = None
    """Its scores are kept between these two before they are weighed; null: as they are."""
    required: bool = True
    """true: an answer it cannot score is not scored at all; false: the other parts stand in for it."""
    reward: AnyReward
    """The reward."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = {}
        if not self.weight:
            problems["weight"] = (
                "expected a weight other than 0, got 0: the part would do nothing. Put a reward that is to be reported "
                "only under `yardsticks`."
            )
        if self.clip is not None and self.clip[0] >= self.clip[1]:
            problems["clip"] = f"expected [low, high] with low < high, got {list(self.clip)}. Change one of the two."
        reject(self, problems)
        return self


class CombineConfig(RewardSourceConfig):
    """A weighted sum of several rewards."""

    of: dict[str, RewardPartConfig] = Field(min_length=1)
    """The parts by name; the mean of each is reported as ``reward/<name>``."""
