"""An answer that has a form."""

from __future__ import annotations

from llmstack.config.reward_rules import FormatRegexConfig
from llmstack.rewards.patterns import Pattern
from llmstack.rewards.text_reward import TextReward
from llmstack.rl.rewards_api import RewardBatch


class FormatRegex(TextReward[FormatRegexConfig]):
    """``right`` for an answer the pattern matches, ``wrong`` for another; nothing where it ran out of time.

    Args:
        config: the pattern.
        where: where it stands in the recipe.
    """

    def __init__(self, config: FormatRegexConfig, *, where: str) -> None:
        super().__init__(config, where=where)
        self._pattern = Pattern(config.pattern, config.flags)
        self._timeouts = 0

    def __call__(self, batch: RewardBatch) -> list[float | None]:
        """Score answers.

        Args:
            batch: the answers.
        """
        self._timeouts = 0
        return [self._score(response) for response in batch.responses]

    def metrics(self) -> dict[str, float]:
        """How many answers the pattern ran out of time on."""
        return {"pattern_timeouts": float(self._timeouts)}

    def _score(self, response: str) -> float | None:
        try:
            matches = self._pattern.matches(response, whole=self.config.match == "full")
        except TimeoutError:
            self._timeouts += 1
            return None
        return self.config.right if matches else self.config.wrong
