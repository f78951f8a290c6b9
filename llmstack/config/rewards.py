"""Options of the rewards: what scores an answer."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from llmstack.config.base import Strict
from llmstack.config.markers import RewardModelRef
from llmstack.config.named import NameIn, Registered
from llmstack.registry import REWARDS


class RewardSourceConfig(Strict):
    """Base of every reward's options; subclasses add theirs."""

    kind: Annotated[str, NameIn(REWARDS)]
    """Name in the reward registry."""


class ModelRewardConfig(RewardSourceConfig):
    """A trained reward model."""

    from_: RewardModelRef = Field(alias="from")
    """A reward stage's name or a model folder."""


AnyReward: TypeAlias = Annotated[RewardSourceConfig, Registered(REWARDS, "kind")]
"""Options of any registered reward."""
