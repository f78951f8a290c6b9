"""What became of the documents in each step: counts, and a few examples of every reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llmstack.data.clean.step import Document, Outcome

_LOOK_AHEAD = 8
"""How many times its length an excerpt is masked before it is cut: a number at the cut must be masked whole."""


@dataclass(frozen=True)
class Excerpts:
    """How examples are taken.

    Attributes:
        limit: how many of each reason.
        max_chars: longest one.
        mask: takes personal data out of it; None when the job masks none.
    """

    limit: int
    max_chars: int
    mask: Callable[[str], str] | None = None

    def of(self, text: str) -> str:
        """One line of the beginning of a text, at most ``max_chars`` long.

        Args:
            text: may be of any length.
        """
        head = " ".join(text[: self.max_chars * _LOOK_AHEAD].split())
        if self.mask is not None:
            head = self.mask(head)
        return head if len(head) <= self.max_chars else head[: self.max_chars - 1] + "…"


@dataclass
class Finding:
    """One reason, or one kind of change.

    Attributes:
        documents: how many documents it concerns.
        count: how many times it was found in them.
        examples: a few, in the corpus's order: ``where`` and ``text``.
    """

    documents: int = 0
    count: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)

    def merge(self, other: Finding, limit: int) -> None:
        """Add the finding of later documents.

        Args:
            other: theirs.
            limit: how many examples to hold.
        """
        self.documents += other.documents
        self.count += other.count
        self.examples = (self.examples + other.examples)[:limit]


@dataclass
class Tally:
    """The counts of one step.

    Attributes:
        documents_in: documents that came in.
        documents_out: documents that went on.
        documents_changed: documents that went on with another text.
        chars_in: characters that came in.
        chars_out: characters that went on.
        cpu_seconds: processor time spent in the step, added up over processes.
        dropped: reason -> documents dropped for it.
        changed: kind of change -> where it was made.
    """

    documents_in: int = 0
    documents_out: int = 0
    documents_changed: int = 0
    chars_in: int = 0
    chars_out: int = 0
    cpu_seconds: float = 0.0
    dropped: dict[str, Finding] = field(default_factory=dict)
    changed: dict[str, Finding] = field(default_factory=dict)

    def add(self, document: Document, outcome: Outcome, excerpts: Excerpts) -> None:
        """Count a document.

        Args:
            document: as it came in.
            outcome: what the step made of it.
            excerpts: how examples are taken.
        """
        where = document.where
        self.documents_in += 1
        self.chars_in += len(document.text)
        for change in outcome.changes:
            _note(self.changed, change.what, change.count, where=where, example=change.example, excerpts=excerpts)
        if outcome.text is None:
            example = outcome.example or document.text
            _note(self.dropped, outcome.reason, 1, where=where, example=example, excerpts=excerpts)
            return
        self.documents_out += 1
        self.documents_changed += outcome.text != document.text
        self.chars_out += len(outcome.text)

    def merge(self, other: Tally, limit: int) -> None:
        """Add the counts of later documents.

        Args:
            other: theirs.
            limit: how many examples of a reason to hold.
        """
        for name in ("documents_in", "documents_out", "documents_changed", "chars_in", "chars_out", "cpu_seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.dropped, other.dropped), (self.changed, other.changed)):
            for reason, finding in theirs.items():
                mine.setdefault(reason, Finding()).merge(finding, limit)

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON-able values; the most frequent reasons first."""
        return {
            "documents_in": self.documents_in,
            "documents_out": self.documents_out,
            "documents_changed": self.documents_changed,
            "chars_in": self.chars_in,
            "chars_out": self.chars_out,
            "cpu_seconds": round(self.cpu_seconds, 3),
            "dropped": {
                reason: {"documents": finding.documents, "examples": finding.examples}
                for reason, finding in by_frequency(self.dropped)
            },
            "changed": {
                what: {"documents": finding.documents, "count": finding.count, "examples": finding.examples}
                for what, finding in by_frequency(self.changed)
            },
        }


def by_frequency(findings: dict[str, Finding]) -> list[tuple[str, Finding]]:
    """Findings by falling number of documents, then by name.

    Args:
        findings: reason -> finding.
    """
    return sorted(findings.items(), key=lambda item: (-item[1].documents, item[0]))


def _note(
    findings: dict[str, Finding], reason: str, count: int, *, where: str, example: str, excerpts: Excerpts
) -> None:
    finding = findings.setdefault(reason, Finding())
    finding.documents += 1
    finding.count += count
    if len(finding.examples) < excerpts.limit:
        finding.examples.append({"where": where, "text": excerpts.of(example)})
