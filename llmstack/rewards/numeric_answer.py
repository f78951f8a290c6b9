"""An answer whose number is that of the reference answer."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from llmstack.config.reward_rules import NumericAnswerConfig
from llmstack.rewards.expressions import parse, same_expression
from llmstack.rewards.numbers import equal_numbers, last_boxed, numbers_in
from llmstack.rewards.patterns import Pattern
from llmstack.rewards.text_reward import TextReward
from llmstack.rl.rewards_api import RewardBatch


class NumericAnswer(TextReward[NumericAnswerConfig]):
    """``right`` for an answer whose number is the reference answer's, ``wrong`` for another or none.

    Nothing for an answer whose reference is missing or no number: that is the data's fault, not the answer's.

    Args:
        config: where the number is found, and when two are equal.
        where: where it stands in the recipe.
    """

    def __init__(self, config: NumericAnswerConfig, *, where: str) -> None:
        super().__init__(config, where=where)
        self._marker = Pattern(config.marker)
        self._timeouts = 0

    def __call__(self, batch: RewardBatch) -> list[float | None]:
        """Score answers.

        Args:
            batch: answers with their references.
        """
        self._timeouts = 0
        return [self._score(*pair) for pair in zip(batch.responses, batch.answers, strict=True)]

    def metrics(self) -> dict[str, float]:
        """How many answers the marker ran out of time on."""
        return {"pattern_timeouts": float(self._timeouts)}

    def _score(self, response: str, answer: str | None) -> float | None:
        if answer is None:
            return None
        try:
            known = self.final(answer, (*self.config.find, "last"))
            if known is None:
                return None
            found = self.final(response, self.config.find)
        except TimeoutError:
            self._timeouts += 1
            return None
        return self.config.right if found is not None and self.same(found, known) else self.config.wrong

    def same(self, found: str | Fraction, known: str | Fraction) -> bool:
        """Whether two final answers are equal.

        Args:
            found: what :meth:`final` gave for an answer.
            known: and for its reference.
        """
        if isinstance(found, Fraction) and isinstance(known, Fraction):
            return self._equal(found, known)
        return bool(same_expression(_text(found), _text(known), self._equal))

    def final(self, text: str, places: Sequence[str]) -> str | Fraction | None:
        """The final answer of a text.

        Args:
            text: an answer or a reference; a reference may be the bare number whatever answers have to look like.
            places: where it is looked for, in order.

        Returns:
            A number; with ``expressions`` the text of an expression; None when there is neither.

        Raises:
            TimeoutError: the marker took too long.
        """
        for place in places:
            part = self._part(text, place)
            if part is None:
                continue
            expression = _expression(part if place != "marker" else part.partition("\n")[0])
            if self.config.expressions and expression is not None:
                return expression
            numbers = numbers_in(part)
            if numbers:
                return numbers[0 if place == "marker" else -1]
        return None

    def _part(self, text: str, place: str) -> str | None:
        if place == "boxed":
            return last_boxed(text)
        return self._marker.after_last(text) if place == "marker" else text

    def _equal(self, found: Fraction, known: Fraction) -> bool:
        return equal_numbers(
            found, known, abs_tolerance=self.config.abs_tolerance, rel_tolerance=self.config.rel_tolerance
        )


def _expression(text: str) -> str | None:
    bare = text.strip().rstrip(".").strip("$ ")
    return bare if bare and parse(bare) is not None else None


def _text(value: str | Fraction) -> str:
    return f"({value.numerator})/({value.denominator})" if isinstance(value, Fraction) else value
