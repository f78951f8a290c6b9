"""Documents that are too short or too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmstack.data.clean.step import Document, Outcome, Step, drop, keep

if TYPE_CHECKING:
    from llmstack.config.clean import LengthConfig


class Length(Step):
    """Drops documents outside of bounds.

    Args:
        config: the bounds.
        seed: not used.
    """

    def __init__(self, config: LengthConfig, *, seed: int) -> None:
        self._config = config

    def apply(self, document: Document) -> Outcome:
        """Measure a document.

        Args:
            document: the document.

        Returns:
            The text as it is, or why it is dropped.
        """
        config, text = self._config, document.text
        sizes = (
            (len(text), config.min_chars, config.max_chars, "characters"),
            (len(text.split()), config.min_words, config.max_words, "words"),
        )
        for size, low, high, unit in sizes:
            if low is not None and size < low:
                return drop(f"fewer than {low:,} {unit}")
            if high is not None and size > high:
                return drop(f"more than {high:,} {unit}")
        return keep(text)
