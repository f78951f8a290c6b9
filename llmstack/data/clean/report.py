"""``report.json`` and ``report.md``: what was dropped and changed, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmstack.data.clean.pipeline import StepReport
from llmstack.data.clean.tally import by_frequency

JSON_FILE, MARKDOWN_FILE = "report.json", "report.md"
REPORT_FILES = frozenset((JSON_FILE, MARKDOWN_FILE))


@dataclass(frozen=True)
class Report:
    """The result of a cleaning job.

    Attributes:
        config: the resolved configuration.
        steps: what each step did; the first reads the source.
        files: names of the data files; empty when nothing is left.
        seconds: wall time.
    """

    config: Mapping[str, Any]
    steps: Sequence[StepReport]
    files: Sequence[str]
    seconds: float

    @property
    def documents_in(self) -> int:
        """Documents of the source."""
        return self.steps[0].tally.documents_in

    @property
    def documents_out(self) -> int:
        """Documents that are left."""
        return self.steps[-1].tally.documents_out

    def biggest_reason(self) -> tuple[str, str, int]:
        """Step and reason that dropped most documents, and how many; empty texts and 0 when none was dropped."""
        found = [
            (finding.documents, -place, step.name, reason)
            for place, step in enumerate(self.steps)
            for reason, finding in by_frequency(step.tally.dropped)[:1]
        ]
        documents, _, name, reason = max(found, default=(0, 0, "", ""))
        return name, reason, documents

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-able values."""
        first, last = self.steps[0].tally, self.steps[-1].tally
        return {
            "documents_in": first.documents_in,
            "documents_out": last.documents_out,
            "chars_in": first.chars_in,
            "chars_out": last.chars_out,
            "seconds": round(self.seconds, 3),
            "files": list(self.files),
            "steps": [{"kind": step.name, **step.tally.as_dict(), "details": step.details} for step in self.steps],
            "config": self.config,
        }

    def write(self, folder: Path) -> None:
        """Write both files.

        Args:
            folder: an existing folder.
        """
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False)
        (folder / JSON_FILE).write_text(f"{text}\n", encoding="utf-8")
        (folder / MARKDOWN_FILE).write_text("\n".join(self._markdown()) + "\n", encoding="utf-8")

    def _markdown(self) -> Iterator[str]:
        first, last = self.steps[0].tally, self.steps[-1].tally
        yield "# Cleaning report"
        yield ""
        yield (
            f"{last.documents_out:,} of {first.documents_in:,} documents and {last.chars_out:,} of "
            f"{first.chars_in:,} characters are left, after {self.seconds:,.1f} seconds."
        )
        yield ""
        yield "| step | documents in | out | changed | characters out | CPU seconds |"
        yield "|---|---|---|---|---|---|"
        for step in self.steps:
            tally = step.tally
            cells = (tally.documents_in, tally.documents_out, tally.documents_changed, tally.chars_out)
            yield f"| {step.name} | {' | '.join(f'{cell:,}' for cell in cells)} | {tally.cpu_seconds:,.1f} |"
        for step in self.steps:
            yield from _step_lines(step)
        yield from ("", "## Configuration", "", "```json", json.dumps(self.config, indent=2, ensure_ascii=False), "```")


def _step_lines(step: StepReport) -> Iterator[str]:
    tally = step.tally
    if not tally.dropped and not tally.changed and not step.details:
        return
    yield from ("", f"## {step.name}", "")
    for reason, finding in by_frequency(tally.dropped):
        yield f"- **{finding.documents:,} dropped: {reason}**"
        yield from _example_lines(finding.examples)
    for what, finding in by_frequency(tally.changed):
        yield f"- **{finding.count:,} × {what}** in {finding.documents:,} documents"
        yield from _example_lines(finding.examples)
    for key, value in step.details.items():
        if key != "largest_clusters":
            yield f"- {key.replace('_', ' ')}: {_plain(value)}"
    for cluster in step.details.get("largest_clusters", ()):
        yield f"- kept {_code(cluster[0])}, not {', '.join(map(_code, cluster[1:]))}"


def _example_lines(examples: Sequence[Mapping[str, str]]) -> Iterator[str]:
    for example in examples:
        yield f"  - {_code(example['where'])}: {_code(example['text'])}"


def _code(text: str) -> str:
    """Text as Markdown code, whatever is in it."""
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if fence == "``" else f"{fence}{text or ' '}{fence}"


def _plain(value: Any) -> str:
    """A value in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {_plain(item)}" for key, item in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
