"""A reward that is a function of the user's, named by its address."""

from __future__ import annotations

from llmstack.config.rewards import FunctionRewardConfig
from llmstack.plugins import load_function
from llmstack.rewards.text_reward import TextReward
from llmstack.rl.rewards_api import RewardBatch


class NamedFunction(TextReward[FunctionRewardConfig]):
    """What the function returns for a batch and its arguments.

    Args:
        config: names the function.
        where: where it stands in the recipe.

    Raises:
        UserError: the function cannot be imported.
    """

    def __init__(self, config: FunctionRewardConfig, *, where: str) -> None:
        super().__init__(config, where=where)
        self._function = load_function(config.function)

    def __call__(self, batch: RewardBatch) -> list[float | None]:
        """Score answers.

        Args:
            batch: prompts, answers and reference answers.
        """
        scores: list[float | None] = self._function(batch, **self.config.arguments)
        return scores
