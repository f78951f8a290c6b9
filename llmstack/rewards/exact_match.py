"""An answer that is the reference answer, up to what does not matter."""

from __future__ import annotations

import re
import unicodedata

from llmstack.config.reward_rules import ExactMatchConfig
from llmstack.rewards.patterns import Pattern
from llmstack.rewards.text_reward import TextReward
from llmstack.rl.rewards_api import RewardBatch

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


class ExactMatch(TextReward[ExactMatchConfig]):
    """``right`` for an answer equal to the reference answer, ``wrong`` for another; nothing without a reference.

    Args:
        config: what is compared and what does not matter.
        where: where it stands in the recipe.
    """

    def __init__(self, config: ExactMatchConfig, *, where: str) -> None:
        super().__init__(config, where=where)
        self._extract = None if config.extract is None else Pattern(config.extract)
        self._timeouts = 0

    def __call__(self, batch: RewardBatch) -> list[float | None]:
        """Score answers.

        Args:
            batch: answers with their references.
        """
        self._timeouts = 0
        return [self._score(*pair) for pair in zip(batch.responses, batch.answers, strict=True)]

    def metrics(self) -> dict[str, float]:
        """How many answers the pattern ran out of time on."""
        return {} if self._extract is None else {"pattern_timeouts": float(self._timeouts)}

    def _score(self, response: str, answer: str | None) -> float | None:
        if answer is None:
            return None
        try:
            found = response if self._extract is None else self._extract.last(response)
        except TimeoutError:
            self._timeouts += 1
            return None
        right = found is not None and self.normal(found) == self.normal(answer)
        return self.config.right if right else self.config.wrong

    def normal(self, text: str) -> str:
        """The form in which two texts are compared.

        With all options on this is the normalisation of SQuAD's evaluation (Rajpurkar et al. 2016, section 6.1):
        lower case, then no punctuation, no articles, single spaces.

        Args:
            text: an answer.
        """
        config = self.config
        if config.unicode_form is not None:
            text = unicodedata.normalize(config.unicode_form, text)
        if config.ignore_case:
            text = text.casefold()
        if config.ignore_punctuation:
            text = "".join(letter for letter in text if not unicodedata.category(letter).startswith("P"))
        if config.ignore_articles:
            text = _ARTICLES.sub(" ", text)
        return " ".join(text.split()) if config.ignore_space else text
