"""Text that repeats itself: Rae et al. 2021 (arXiv 2112.11446), appendix A.1.1, "Repetition Removal", table A1.

The paper leaves details open. Here a line or paragraph is a duplicate when it occurred before in the document, words
are what white space separates, and characters are those of words, so that white space weighs nothing on either side of
a share. An n-gram that occurs once is no repetition, also where it is the most frequent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llmstack.data.clean.step import Document, Outcome, Step, drop, keep
from llmstack.data.clean.words import ngram_hashes, word_hashes

if TYPE_CHECKING:
    from llmstack.config.clean import GopherRepetitionConfig

_PARAGRAPH_END = re.compile(r"\n\s*\n")


def duplicate_ratios(pieces: Sequence[str]) -> tuple[float, float]:
    """How much of a document is in pieces that occurred before.

    Args:
        pieces: lines or paragraphs.

    Returns:
        Share of the pieces, and share of the characters (white space not counted); 0 when there are none.
    """
    seen: set[str] = set()
    repeated = repeated_chars = chars = 0
    for piece in pieces:
        length = sum(map(len, piece.split()))
        chars += length
        if piece in seen:
            repeated += 1
            repeated_chars += length
        seen.add(piece)
    return (repeated / len(pieces), repeated_chars / chars) if chars else (0.0, 0.0)


def top_ngram_char_ratio(hashes: np.ndarray, lengths: np.ndarray, size: int) -> float:
    """Share of characters in the most frequent n-gram; of several, in the longest.

    Args:
        hashes: uint64 (W,), the words.
        lengths: int (W,), their characters.
        size: n.

    Returns:
        0 to 1; 0 when no n-gram occurs twice.
    """
    first, places, counts = _distinct(hashes, size)
    if counts.max(initial=0) < 2:
        return 0.0
    edges = np.concatenate([[0], np.cumsum(lengths)])
    chars = (edges[size:] - edges[:-size])[first]
    top = np.lexsort((-chars, -counts))[0]
    return float(_covered(places == top, lengths, size) / lengths.sum())


def duplicate_ngram_char_ratio(hashes: np.ndarray, lengths: np.ndarray, size: int) -> float:
    """Share of characters in n-grams that occur more than once; overlapping n-grams count a character once.

    Args:
        hashes: uint64 (W,), the words.
        lengths: int (W,), their characters.
        size: n.

    Returns:
        0 to 1.
    """
    _, places, counts = _distinct(hashes, size)
    if counts.max(initial=0) < 2:
        return 0.0
    return float(_covered(counts[places] > 1, lengths, size) / lengths.sum())


def _distinct(hashes: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the different n-grams: where each is first, which one is at each place, and how often each occurs."""
    grams = ngram_hashes(hashes, size)
    _, first, places, counts = np.unique(grams, return_index=True, return_inverse=True, return_counts=True)
    return first, places, counts


def _covered(starts: np.ndarray, lengths: np.ndarray, size: int) -> int:
    """Characters of the words in n-grams that start at the marked places."""
    edges = np.zeros(len(lengths) + 1, np.int64)
    places = np.flatnonzero(starts)
    edges[places] += 1
    edges[places + size] -= 1  # starts are distinct, and so are ends
    return int(lengths[np.cumsum(edges[:-1]) > 0].sum())


class GopherRepetition(Step):
    """Drops documents that break a rule; the first one broken is the reason.

    Args:
        config: the limits; null, or an n that is not in a table, turns a rule off.
        seed: not used.
    """

    def __init__(self, config: GopherRepetitionConfig, *, seed: int) -> None:
        self._config = config

    def apply(self, document: Document) -> Outcome:
        """Hold a document to the rules.

        Args:
            document: the document.

        Returns:
            The text as it is, or why it is dropped.
        """
        for reason, value, limit in self._shares(document.text):
            if limit is not None and value > limit:
                return drop(reason)
        return keep(document.text)

    def _shares(self, text: str) -> Iterator[tuple[str, float, float | None]]:
        """Reason, share and limit of each rule, worked out one after the other."""
        config = self._config
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        ratio, char_ratio = duplicate_ratios(lines)
        yield "repeated lines", ratio, config.max_duplicate_line_ratio
        yield "characters in repeated lines", char_ratio, config.max_duplicate_line_char_ratio
        ratio, char_ratio = duplicate_ratios([part.strip() for part in _PARAGRAPH_END.split(text) if part.strip()])
        yield "repeated paragraphs", ratio, config.max_duplicate_paragraph_ratio
        yield "characters in repeated paragraphs", char_ratio, config.max_duplicate_paragraph_char_ratio
        words = text.split()
        hashes = word_hashes(words)
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        for size, limit in sorted(config.max_top_ngram_char_ratio.items()):
            value = top_ngram_char_ratio(hashes, lengths, size)
            yield f"a frequent {size}-gram", value, limit
            if not value:  # then no longer n-gram occurs twice either
                return
        for size, limit in sorted(config.max_duplicate_ngram_char_ratio.items()):
            value = duplicate_ngram_char_ratio(hashes, lengths, size)
            yield f"repeated {size}-grams", value, limit
            if not value:
                return
