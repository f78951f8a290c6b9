"""What a reward that reads text alone is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from llmstack.config.rewards import RewardSourceConfig
from llmstack.rl.rewards_api import RewardBatch

ConfigT = TypeVar("ConfigT", bound=RewardSourceConfig)


class TextReward(ABC, Generic[ConfigT]):
    """A reward with options of its own that needs nothing but prompts, answers and reference answers.

    Args:
        config: its options.
        where: where they stand in the recipe, for messages, e.g. ``stages.policy.reward``.
    """

    def __init__(self, config: ConfigT, *, where: str) -> None:
        self.config, self.where = config, where

    @abstractmethod
    def __call__(self, batch: RewardBatch) -> list[float | None]:
        """Score answers.

        Args:
            batch: prompts, answers and reference answers.

        Returns:
            One number an answer, higher is better; None for an answer it cannot score.
        """

    def metrics(self) -> dict[str, float]:
        """Numbers about the last batch beside its scores, e.g. how many answers ran into a time limit.

        Returns:
            The same names each time.
        """
        return {}
