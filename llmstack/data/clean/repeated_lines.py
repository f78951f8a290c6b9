"""Lines that say nothing new: repeated within a document, or boilerplate all over the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from llmstack.data.clean.counts import HashCounts
from llmstack.data.clean.step import Change, CorpusStep, Decision, Document, Outcome, Step, keep

if TYPE_CHECKING:
    from llmstack.config.clean import RepeatedLinesConfig


def line_hash(line: str) -> int:
    """A number for a line, whatever its case and spacing.

    Args:
        line: any.

    Returns:
        64 bits.
    """
    return xxhash.xxh3_64_intdigest(" ".join(line.split()).casefold().encode())


def hashed_lines(text: str, min_chars: int) -> list[tuple[str, int | None]]:
    """The lines of a text with their numbers.

    Args:
        text: any.
        min_chars: shorter lines have None.
    """
    return [(line, line_hash(line) if len(line.strip()) >= min_chars else None) for line in text.split("\n")]


class LineFilter(Step):
    """Removes lines.

    Args:
        frequent: uint64, ascending; lines to remove wherever they are.
        within_document: keep only the first of equal lines of a document.
        min_chars: shorter lines stay.
    """

    def __init__(self, frequent: np.ndarray, *, within_document: bool, min_chars: int) -> None:
        self._frequent, self._within, self._min_chars = frequent, within_document, min_chars

    def apply(self, document: Document) -> Outcome:
        """Go through a document's lines.

        Args:
            document: the document.

        Returns:
            The lines that are kept.
        """
        lines = hashed_lines(document.text, self._min_chars)
        known = np.array([number for _, number in lines if number is not None], np.uint64)
        everywhere = set(known[np.isin(known, self._frequent)].tolist())
        seen: set[int] = set()
        kept, boilerplate, repeated = [], [], []
        for line, number in lines:
            if number is not None and number in everywhere:
                boilerplate.append(line)
            elif number is not None and self._within and number in seen:
                repeated.append(line)
            else:
                kept.append(line)
            if number is not None:
                seen.add(number)
        if not boilerplate and not repeated:
            return keep(document.text)
        changes = [
            Change(what, len(gone), gone[0] if gone else "")
            for what, gone in (("lines all over the corpus", boilerplate), ("lines repeated in the document", repeated))
        ]
        return keep("\n".join(kept).strip("\n"), *changes)


class RepeatedLines(CorpusStep):
    """Counts in how many documents each line is.

    Args:
        config: which lines go.
        seed: not used.
    """

    def __init__(self, config: RepeatedLinesConfig, *, seed: int) -> None:
        self._config = config
        self._counts = HashCounts()

    def scan(self, document: Document) -> np.ndarray:
        """The different lines of a document; none when the corpus does not matter.

        Args:
            document: the document.

        Returns:
            uint64 (K,), ascending.
        """
        if self._config.max_documents is None:
            return np.zeros(0, np.uint64)
        hashes = {number for _, number in hashed_lines(document.text, self._config.min_chars) if number is not None}
        return np.array(sorted(hashes), np.uint64)

    def collect(self, numbers: np.ndarray, scans: Sequence[np.ndarray]) -> None:
        """Count the lines of some documents.

        Args:
            numbers: int64 (N,), document numbers.
            scans: N results of ``scan``.
        """
        self._counts.add(np.concatenate(scans))

    def decide(self) -> Decision:
        """The filter of the lines that are in too many documents."""
        config = self._config
        frequent = np.zeros(0, np.uint64) if config.max_documents is None else self._counts.above(config.max_documents)
        return Decision(LineFilter(frequent, within_document=config.within_document, min_chars=config.min_chars))
