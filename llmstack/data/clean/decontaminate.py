"""Documents that hold text of evaluation sets: equal n-grams of words (Brown et al. 2020, appendix C: n = 13).

The paper cuts a document apart around what it finds; here the document is dropped, because half a document that leads
up to a test question is of little use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from llmstack.data.clean.step import Document, Outcome, Step, drop, keep
from llmstack.data.clean.words import ngram_hashes, normal_words, word_hashes
from llmstack.data.records import record_texts
from llmstack.errors import DataError
from llmstack.registry import SOURCES

if TYPE_CHECKING:
    from llmstack.config.clean import DecontaminateConfig
    from llmstack.config.data import SourceConfig


class EvaluationGrams:
    """The n-grams of evaluation texts.

    Args:
        ngram_words: n; texts of fewer words are one n-gram of all their words.
        min_words: texts of fewer words are left out.

    Attributes:
        counts: name of a set -> ``texts``, ``too_short`` and ``ngrams``.
    """

    def __init__(self, ngram_words: int, min_words: int) -> None:
        self._ngram_words, self._min_words = ngram_words, min_words
        self._tables: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._names: list[str] = []
        self.counts: dict[str, dict[str, int]] = {}

    def add(self, name: str, texts: Iterable[str]) -> None:
        """Take the texts of a set; n-grams that an earlier set has stay with that one.

        Args:
            name: the set's name.
            texts: its texts, each looked for by itself.
        """
        found: dict[int, list[np.ndarray]] = {}
        num_texts = too_short = 0
        for text in texts:
            num_texts += 1
            words = normal_words(text)
            if len(words) < self._min_words:
                too_short += 1
                continue
            size = min(self._ngram_words, len(words))
            found.setdefault(size, []).append(ngram_hashes(word_hashes(words), size))
        for size, hashes in found.items():
            new = np.unique(np.concatenate(hashes))
            old, owners = self._tables.get(size, (np.zeros(0, np.uint64), np.zeros(0, np.int64)))
            both = np.concatenate([old, new])
            values, first = np.unique(both, return_index=True)
            owner = np.concatenate([owners, np.full(len(new), len(self._names))])
            self._tables[size] = (values, owner[first])
        ngrams = sum(len(np.unique(np.concatenate(hashes))) for hashes in found.values())
        self._names.append(name)
        self.counts[name] = {"texts": num_texts, "too_short": too_short, "ngrams": ngrams}

    def find(self, words: list[str]) -> tuple[int, str, str]:
        """Look for the n-grams in a document.

        Args:
            words: the document's, as ``normal_words`` gives them.

        Returns:
            How many different ones are in it, the set of the first and its words; ``(0, "", "")`` when there is none.
        """
        hashes = word_hashes(words)
        total, name, shown = 0, "", ""
        for size, (values, owners) in sorted(self._tables.items(), reverse=True):
            grams = ngram_hashes(hashes, size)
            places = np.searchsorted(values, grams)
            places[places == len(values)] = 0
            hits = np.flatnonzero(values[places] == grams)
            if len(hits) and not name:
                name = self._names[owners[places[hits[0]]]]
                shown = " ".join(words[hits[0] : hits[0] + size])
            total += len(np.unique(grams[hits]))
        return total, name, shown


def texts_of(config: SourceConfig, *, seed: int) -> Iterable[str]:
    """The texts of a source's records: documents, prompts, answers, turns.

    Args:
        config: the source's options.
        seed: of the source.

    Raises:
        DataError: the source cannot be read.
    """
    for record in SOURCES.get(config.source)(config, seed=seed).records():
        yield from record_texts(record)


class Decontaminate(Step):
    """Drops documents that share n-grams with an evaluation set.

    Args:
        config: the sets, and what counts as shared.
        seed: of their sources.

    Raises:
        DataError: a set cannot be read, or has no text that is long enough.
    """

    def __init__(self, config: DecontaminateConfig, *, seed: int) -> None:
        self._min_matches = config.min_matches
        self._grams = EvaluationGrams(config.ngram_words, config.min_words)
        for name, source in config.against.items():
            try:
                self._grams.add(name, texts_of(source, seed=seed))
            except DataError as error:
                raise DataError(f"against.{name}: {error}") from error
            counts = self._grams.counts[name]
            if not counts["ngrams"]:
                raise DataError(
                    f"against.{name}: expected texts of at least {config.min_words} words, got {counts['texts']} "
                    "shorter ones. Lower min_words, or remove this set."
                )

    def apply(self, document: Document) -> Outcome:
        """Look for evaluation texts in a document.

        Args:
            document: the document.

        Returns:
            The text as it is, or which set it shares text with.
        """
        matches, name, words = self._grams.find(normal_words(document.text))
        if matches < self._min_matches:
            return keep(document.text)
        return drop(f"text of {name}", words)

    def details(self) -> Mapping[str, Any]:
        """How many texts and n-grams each set has, and how many texts were too short to be looked for."""
        return {"against": self._grams.counts}
