"""What a cleaning step is: it takes documents one by one, and may first want to see them all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Document:
    """A text on its way through the steps.

    Attributes:
        number: its place in the source, from 0.
        where: ``file:line``, or another place a reader can look up.
        text: the text as the steps before left it.
    """

    number: int
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of change made in a document.

    Attributes:
        what: the kind, e.g. ``e-mail``; documents are counted by it.
        count: how many there were.
        example: a piece of text that shows it.
    """

    what: str
    count: int
    example: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step makes of a document.

    Attributes:
        text: the text that goes on; None drops the document.
        reason: why it is dropped, in words that many documents share; empty when it is not.
        example: a piece of text that shows the reason; empty takes the document's beginning.
        changes: what was changed in the text, whether it goes on or not.
    """

    text: str | None
    reason: str = ""
    example: str = ""
    changes: tuple[Change, ...] = ()


def keep(text: str, *changes: Change) -> Outcome:
    """The outcome of a document that goes on.

    Args:
        text: as it goes on.
        changes: what was changed; kinds with count 0 are left out.
    """
    return Outcome(text, changes=tuple(change for change in changes if change.count))


def drop(reason: str, example: str = "", *, changes: Sequence[Change] = ()) -> Outcome:
    """The outcome of a document that is dropped.

    Args:
        reason: why, in words that many documents share.
        example: a piece of text that shows it; empty takes the document's beginning.
        changes: what had been changed before it was dropped.
    """
    return Outcome(None, reason, example, tuple(change for change in changes if change.count))


class Step(ABC):
    """A step that needs one document at a time. It is copied into worker processes, so it must be picklable."""

    @abstractmethod
    def apply(self, document: Document) -> Outcome:
        """Decide about a document.

        Args:
            document: one that the earlier steps kept.
        """

    def details(self) -> Mapping[str, Any]:
        """What the report says about the step besides counts, as JSON-able values."""
        return {}


@dataclass(frozen=True)
class Decision:
    """What a corpus step does once it has seen every document.

    Attributes:
        step: applies it to the documents, in the same order.
        clusters: document numbers of a few clusters of duplicates, for the report; the first of each is kept.
    """

    step: Step
    clusters: Sequence[Sequence[int]] = field(default_factory=tuple)


class CorpusStep(ABC):
    """A step that must see the whole corpus before it decides about any document.

    ``scan`` runs in worker processes, on copies made before the first ``collect``; ``collect`` and ``decide`` run in
    the main one. Only what ``scan`` returns is kept in memory.
    """

    @abstractmethod
    def scan(self, document: Document) -> np.ndarray:
        """What must be remembered of a document.

        Args:
            document: one that the earlier steps kept.

        Returns:
            (K,) integers, K of the step's choice and 0 for a document that the step has nothing to do with.
        """

    @abstractmethod
    def collect(self, numbers: np.ndarray, scans: Sequence[np.ndarray]) -> None:
        """Take the scans of some documents; called with ascending numbers until all were given.

        Args:
            numbers: int64 (N,), document numbers.
            scans: N results of ``scan``.
        """

    @abstractmethod
    def decide(self) -> Decision:
        """Called once, after the last ``collect``."""
