"""Text that does not look like prose: Rae et al. 2021 (arXiv 2112.11446), appendix A.1.1, "Quality Filtering".

Words are what white space separates, lines are not blank. The rules are one function each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from llmstack.data.clean.step import Document, Outcome, Step, drop, keep

if TYPE_CHECKING:
    from llmstack.config.clean import GopherQualityConfig

BULLETS = ("•", "‣", "⁃", "▪", "●", "◦", "■", "□", "–", "-", "*")
"""What a line of a list may start with; the paper names no characters."""
ELLIPSES = ("...", "…")


def mean_word_chars(words: Sequence[str]) -> float:
    """Mean length of a word in characters.

    Args:
        words: at least one.
    """
    return sum(map(len, words)) / len(words)


def symbols_per_word(text: str, num_words: int, symbols: Iterable[str]) -> float:
    """How often some symbols occur, divided by the number of words.

    Args:
        text: the document.
        num_words: its number of words, at least 1.
        symbols: different ways of writing one symbol.
    """
    return sum(text.count(symbol) for symbol in symbols) / num_words


def bullet_line_ratio(lines: Sequence[str]) -> float:
    """Share of lines that start with a bullet point.

    Args:
        lines: at least one, without white space around them.
    """
    return sum(line.startswith(BULLETS) for line in lines) / len(lines)


def ellipsis_line_ratio(lines: Sequence[str]) -> float:
    """Share of lines that end with an ellipsis.

    Args:
        lines: at least one, without white space around them.
    """
    return sum(line.endswith(ELLIPSES) for line in lines) / len(lines)


def alphabetic_word_ratio(words: Sequence[str]) -> float:
    """Share of words with at least one alphabetic character.

    Args:
        words: at least one.
    """
    return sum(any(map(str.isalpha, word)) for word in words) / len(words)


def count_stop_words(words: Iterable[str], stop_words: Iterable[str]) -> int:
    """How many of some words occur, whatever their case and the punctuation around them.

    Args:
        words: of the document.
        stop_words: what is looked for, in small letters.
    """
    found = {word.lower().strip(".,;:!?\"'()[]“”‘’") for word in words}
    return len(found.intersection(stop_words))


class GopherQuality(Step):
    """Drops documents that break a rule; the first one broken is the reason.

    Args:
        config: the limits; null turns a rule off.
        seed: not used.
    """

    def __init__(self, config: GopherQualityConfig, *, seed: int) -> None:
        self._config = config

    def apply(self, document: Document) -> Outcome:
        """Hold a document to the rules.

        Args:
            document: the document.

        Returns:
            The text as it is, or why it is dropped.
        """
        text = document.text
        words = text.split()
        if not words:
            return drop("no words")
        for reason, value, low, high in self._rules(text, words):
            if (low is not None and value < low) or (high is not None and value > high):
                return drop(reason)
        return keep(text)

    def _rules(self, text: str, words: list[str]) -> Iterator[tuple[str, float, float | None, float | None]]:
        """Reason, value, smallest and largest value of each rule, worked out one after the other."""
        config, count = self._config, len(words)
        yield f"fewer than {config.min_words} words", count, config.min_words, None
        yield f"more than {config.max_words} words", count, None, config.max_words
        mean = mean_word_chars(words)
        yield "words too short", mean, config.min_mean_word_chars, None
        yield "words too long", mean, None, config.max_mean_word_chars
        for name, symbols in (("hash signs", ("#",)), ("ellipses", ELLIPSES)):
            yield f"too many {name}", symbols_per_word(text, count, symbols), None, config.max_symbols_per_word
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        yield "too many bullet points", bullet_line_ratio(lines), None, config.max_bullet_line_ratio
        yield "too many lines cut off", ellipsis_line_ratio(lines), None, config.max_ellipsis_line_ratio
        yield "too few words with letters", alphabetic_word_ratio(words), config.min_alphabetic_word_ratio, None
        yield "too few stop words", count_stop_words(words, config.stop_words), config.min_stop_words, None
