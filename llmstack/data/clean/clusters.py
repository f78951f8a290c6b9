"""Clusters of duplicates: union-find, and what is dropped of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from llmstack.data.clean.step import Decision, Document, Outcome, Step, drop, keep

_SHOWN_CLUSTERS, _SHOWN_MEMBERS = 10, 5


class UnionFind:
    """Sets of numbers below a limit; the smallest of a set stands for it.

    Args:
        size: the limit; at first each number is a set of its own.
    """

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, item: int) -> int:
        """The smallest number of an item's set.

        Args:
            item: any of the numbers.
        """
        parent = self._parent
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def union(self, one: int, other: int) -> None:
        """Make one set of the sets of two items.

        Args:
            one: an item.
            other: another.
        """
        low, high = sorted((self.find(one), self.find(other)))
        self._parent[high] = low

    def roots(self) -> np.ndarray:
        """The smallest number of each item's set: int64 (size,)."""
        return np.array([self.find(item) for item in range(len(self._parent))], np.int64)


class DropListed(Step):
    """Drops documents by their numbers.

    Args:
        numbers: int64 (D,), ascending.
        reason: why.
        details: what the report says about the clusters.
    """

    def __init__(self, numbers: np.ndarray, reason: str, details: Mapping[str, Any]) -> None:
        self._numbers, self._reason, self._details = numbers, reason, details

    def apply(self, document: Document) -> Outcome:
        """Look a document's number up.

        Args:
            document: the document.
        """
        place = int(np.searchsorted(self._numbers, document.number))
        listed = place < len(self._numbers) and self._numbers[place] == document.number
        return drop(self._reason) if listed else keep(document.text)

    def details(self) -> Mapping[str, Any]:
        """How many clusters there are, and how large they are."""
        return self._details


def keep_first(numbers: np.ndarray, roots: np.ndarray, reason: str, **details: Any) -> Decision:
    """Keep the first document of each cluster.

    Args:
        numbers: int64 (N,), ascending document numbers.
        roots: int64 (N,), for each the place in ``numbers`` of its cluster's first document.
        reason: why the others are dropped.
        details: more for the report.

    Returns:
        What to do, with the members of the largest clusters (of equal ones, the first).
    """
    heads, sizes = np.unique(roots, return_counts=True)
    heads, sizes = heads[sizes > 1], sizes[sizes > 1]
    largest = np.lexsort((heads, -sizes))[:_SHOWN_CLUSTERS]
    clusters = [numbers[np.flatnonzero(roots == head)[:_SHOWN_MEMBERS]].tolist() for head in heads[largest]]
    found = {
        "clusters": len(heads),
        "documents_in_clusters": int(sizes.sum()),
        "largest_cluster": int(sizes.max(initial=0)),
        **details,
    }
    dropped = numbers[roots != np.arange(len(roots))]
    return Decision(DropListed(dropped, reason, found), clusters)


def places_of(clusters: Sequence[Sequence[int]], wheres: Mapping[int, str]) -> list[list[str]]:
    """Clusters with the places of their documents instead of the numbers.

    Args:
        clusters: document numbers.
        wheres: number -> place.
    """
    return [[wheres[number] for number in cluster] for cluster in clusters]
