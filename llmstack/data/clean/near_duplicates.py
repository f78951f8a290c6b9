"""Edited copies of an earlier document: MinHash signatures (Broder 1997), banding, union-find.

Signatures are datasketch's. Its index keeps every band of every document in Python dictionaries; here bands are hashed
and sorted, which finds the same pairs in a fraction of the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from datasketch import MinHash, MinHashLSH

from llmstack.data.clean.clusters import UnionFind, keep_first
from llmstack.data.clean.step import CorpusStep, Decision, Document
from llmstack.data.clean.words import mixed, ngram_hashes, normal_words, word_hashes

if TYPE_CHECKING:
    from llmstack.config.clean import NearDuplicatesConfig

_WEIGHTS = (0.1, 0.9)
"""A pair that is compared in vain costs a microsecond, one that is missed stays in the data."""


@cache
def _permutations(num_perm: int, seed: int) -> np.ndarray:
    return MinHash(num_perm, seed=seed).permutations


def shingle_hashes(text: str, shingle_words: int) -> np.ndarray:
    """The shingles of a text: n-grams of its words; one shingle of all words when there are fewer.

    Args:
        text: any.
        shingle_words: n.

    Returns:
        uint32 (K,), in no order and once each; (0,) for a text without words.
    """
    hashes = word_hashes(normal_words(text))
    grams = ngram_hashes(hashes, min(shingle_words, len(hashes))) if len(hashes) else hashes
    return np.unique((grams >> np.uint64(32)).astype(np.uint32))


def signature(shingles: np.ndarray, *, num_perm: int, seed: int) -> np.ndarray:
    """The MinHash signature of a set; two sets agree in an entry with the probability of their Jaccard similarity.

    Args:
        shingles: uint32 (K,), at least one.
        num_perm: entries of the signature.
        seed: of the permutations.

    Returns:
        uint32 (num_perm,).
    """
    sketch = MinHash(num_perm, hashfunc=int, permutations=_permutations(num_perm, seed), scheme="affine32")
    sketch.update_batch(shingles)
    return np.asarray(sketch.hashvalues, np.uint32)


def bands_for(threshold: float, num_perm: int) -> tuple[int, int]:
    """Bands and rows for which pairs at a similarity are found: datasketch's optimum with weight on missed pairs.

    Args:
        threshold: the similarity.
        num_perm: entries of a signature.

    Returns:
        Number of bands, and entries of each.
    """
    index = MinHashLSH(threshold=threshold, num_perm=num_perm, weights=_WEIGHTS)
    return int(index.b), int(index.r)


def cluster(signatures: np.ndarray, *, bands: int, rows: int, threshold: float) -> np.ndarray:
    """Clusters of documents: linked are those that agree in a whole band and in ``threshold`` of all entries.

    Args:
        signatures: uint32 (N, num_perm).
        bands: how many bands.
        rows: entries of each.
        threshold: least share of equal entries.

    Returns:
        int64 (N,): for each the first document of its cluster.
    """
    sets = UnionFind(len(signatures))
    for band in range(bands):
        for members in _buckets(signatures[:, band * rows : (band + 1) * rows]):
            _link(members, signatures, sets, threshold)
    return sets.roots()


def _buckets(band: np.ndarray) -> Iterator[np.ndarray]:
    """Places of the rows that are equal, ascending, for each value that occurs twice or more."""
    keys = np.zeros(len(band), np.uint64)
    for column in band.T:
        keys = mixed(keys * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64))
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order], prepend=~keys[order[:1]], append=~keys[order[-1:]]))
    for start, end in zip(edges[:-1], edges[1:], strict=True):
        if end - start > 1:
            yield order[start:end]


def _link(members: np.ndarray, signatures: np.ndarray, sets: UnionFind, threshold: float) -> None:
    """Joins the similar ones of a bucket. Whatever is joined leaves it, so one large cluster costs no square."""
    waiting = members
    while len(waiting) > 1:
        reached, waiting = [int(waiting[0])], waiting[1:]
        while reached and len(waiting):
            one = reached.pop()
            similar = (signatures[waiting] == signatures[one]).mean(axis=1) >= threshold
            for other in waiting[similar]:
                sets.union(one, int(other))
                reached.append(int(other))
            waiting = waiting[~similar]


class NearDuplicates(CorpusStep):
    """Remembers a signature of each document.

    Args:
        config: shingles, signatures and the similarity that counts.
        seed: of the permutations.
    """

    def __init__(self, config: NearDuplicatesConfig, *, seed: int) -> None:
        self._config, self._seed = config, seed
        self._numbers: list[np.ndarray] = [np.zeros(0, np.int64)]
        self._signatures: list[np.ndarray] = [np.zeros((0, config.num_perm), np.uint32)]

    def scan(self, document: Document) -> np.ndarray:
        """The signature of a document.

        Args:
            document: the document.

        Returns:
            uint32 (num_perm,), or (0,) for a text without words, which is like no other.
        """
        shingles = shingle_hashes(document.text, self._config.shingle_words)
        if len(shingles) == 0:
            return shingles
        return signature(shingles, num_perm=self._config.num_perm, seed=self._seed)

    def collect(self, numbers: np.ndarray, scans: Sequence[np.ndarray]) -> None:
        """Take the signatures of some documents.

        Args:
            numbers: int64 (N,), document numbers.
            scans: N results of ``scan``.
        """
        found = [scan for scan in scans if len(scan)]
        if found:
            self._numbers.append(numbers[[len(scan) > 0 for scan in scans]])
            self._signatures.append(np.stack(found))

    def decide(self) -> Decision:
        """Drop all but the first of similar documents."""
        config = self._config
        bands, rows = config.bands, config.rows
        if bands is None or rows is None:
            bands, rows = bands_for(config.threshold, config.num_perm)
        numbers, signatures = np.concatenate(self._numbers), np.concatenate(self._signatures)
        roots = cluster(signatures, bands=bands, rows=rows, threshold=config.threshold)
        return keep_first(numbers, roots, "much like an earlier document", bands=bands, rows=rows)
