"""Spans of sentences that occurred before in the corpus: Raffel et al. 2020, section 2.2, last rule (three sentences).

Of a span that occurs more than once the first occurrence stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from llmstack.data.clean.repeated_lines import line_hash
from llmstack.data.clean.sentences import split_sentences
from llmstack.data.clean.step import Change, CorpusStep, Decision, Document, Outcome, Step, keep
from llmstack.data.clean.words import ngram_hashes

if TYPE_CHECKING:
    from llmstack.config.clean import RepeatedSentencesConfig


def span_hashes(text: str, sentences: int) -> tuple[list[tuple[int, int]], np.ndarray]:
    """The sentences of a text, and a number for each span of them, whatever case and spacing.

    Args:
        text: any.
        sentences: n, sentences of a span.

    Returns:
        Start and end of S sentences, and uint64 (S - n + 1,), or (0,) when there are fewer than n.
    """
    places = split_sentences(text)
    hashes = np.fromiter((line_hash(text[start:end]) for start, end in places), np.uint64, len(places))
    return places, ngram_hashes(hashes, sentences)


class SpanFilter(Step):
    """Removes the sentences of spans that are not at their first occurrence.

    Args:
        spans: uint64 (K,), ascending; spans that occur more than once.
        first: int64 (K,), number of the document in which each occurs first.
        sentences: sentences of a span.
    """

    def __init__(self, spans: np.ndarray, first: np.ndarray, *, sentences: int) -> None:
        self._spans, self._first, self._sentences = spans, first, sentences

    def apply(self, document: Document) -> Outcome:
        """Go through a document's spans.

        Args:
            document: the document.

        Returns:
            The sentences that are kept.
        """
        places, hashes = span_hashes(document.text, self._sentences)
        gone = np.zeros(len(places), bool)
        seen: set[int] = set()
        for at in np.flatnonzero(np.isin(hashes, self._spans)):
            span = int(hashes[at])
            first = self._first[np.searchsorted(self._spans, hashes[at])]
            if first != document.number or span in seen:
                gone[at : at + self._sentences] = True
            seen.add(span)
        if not gone.any():
            return keep(document.text)
        kept, end = [], 0
        for (_, stop), removed in zip(places, gone, strict=True):
            if not removed:
                kept.append(document.text[end:stop])  # with the white space before it
            end = stop
        start, stop = places[int(np.argmax(gone))]
        change = Change("repeated sentences", int(gone.sum()), document.text[start:stop])
        return keep("".join(kept).lstrip(), change)


class RepeatedSentences(CorpusStep):
    """Remembers where each span occurs first: 16 bytes a sentence.

    Args:
        config: how long a span is.
        seed: not used.
    """

    def __init__(self, config: RepeatedSentencesConfig, *, seed: int) -> None:
        self._sentences = config.sentences
        self._spans: list[np.ndarray] = [np.zeros(0, np.uint64)]
        self._numbers: list[np.ndarray] = [np.zeros(0, np.int64)]

    def scan(self, document: Document) -> np.ndarray:
        """The spans of a document.

        Args:
            document: the document.

        Returns:
            uint64 (K,), in the document's order.
        """
        return span_hashes(document.text, self._sentences)[1]

    def collect(self, numbers: np.ndarray, scans: Sequence[np.ndarray]) -> None:
        """Take the spans of some documents.

        Args:
            numbers: int64 (N,), document numbers.
            scans: N results of ``scan``.
        """
        self._spans.append(np.concatenate(scans))
        self._numbers.append(np.repeat(numbers, [len(scan) for scan in scans]))

    def decide(self) -> Decision:
        """The filter of the spans that occur more than once."""
        spans, first, counts = np.unique(np.concatenate(self._spans), return_index=True, return_counts=True)
        numbers = np.concatenate(self._numbers)[first]
        repeated = counts > 1
        return Decision(SpanFilter(spans[repeated], numbers[repeated], sentences=self._sentences))
