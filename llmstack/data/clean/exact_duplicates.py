"""Copies of an earlier document: equal hashes of the text without what does not count."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llmstack.data.clean.clusters import keep_first
from llmstack.data.clean.step import CorpusStep, Decision, Document

if TYPE_CHECKING:
    from llmstack.config.clean import ExactDuplicatesConfig

_PUNCTUATION = re.compile(r"[^\w\s]|_")


def essence(text: str, ignore: Collection[str]) -> str:
    """A text without what does not count.

    Args:
        text: any.
        ignore: of ``case``, ``whitespace``, ``punctuation``.

    Returns:
        The text in Unicode form NFC; runs of white space are one space when that does not count.
    """
    text = unicodedata.normalize("NFC", text)
    if "case" in ignore:
        text = text.casefold()
    if "punctuation" in ignore:
        text = _PUNCTUATION.sub(" " if "whitespace" in ignore else "", text)
    return " ".join(text.split()) if "whitespace" in ignore else text


class ExactDuplicates(CorpusStep):
    """Remembers 16 bytes of each document; two different ones in 10**9 agree with a chance of 1 in 10**21.

    Args:
        config: what does not count.
        seed: not used.
    """

    def __init__(self, config: ExactDuplicatesConfig, *, seed: int) -> None:
        self._ignore = config.ignore
        self._numbers: list[np.ndarray] = [np.zeros(0, np.int64)]
        self._hashes: list[np.ndarray] = [np.zeros((0, 2), np.uint64)]

    def scan(self, document: Document) -> np.ndarray:
        """A hash of the text.

        Args:
            document: the document.

        Returns:
            uint64 (2,).
        """
        text = essence(document.text, self._ignore)
        return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=16).digest(), np.uint64)

    def collect(self, numbers: np.ndarray, scans: Sequence[np.ndarray]) -> None:
        """Take the hashes of some documents.

        Args:
            numbers: int64 (N,), document numbers.
            scans: N results of ``scan``.
        """
        self._numbers.append(numbers)
        self._hashes.append(np.stack(scans))

    def decide(self) -> Decision:
        """Drop all but the first of equal documents."""
        hashes = np.concatenate(self._hashes)
        pairs = np.ascontiguousarray(hashes).view([("", np.uint64)] * 2)[:, 0]
        _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        return keep_first(np.concatenate(self._numbers), first[inverse], "copy of an earlier document")
