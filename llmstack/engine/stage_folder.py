"""One stage's files inside a run's folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from llmstack.engine.atomic import recover_folders, write_folder, write_json
from llmstack.engine.fingerprint import StageIdentity, differences
from llmstack.engine.record import StageResult

Status = Literal["running", "done", "failed", "interrupted"]
STAGE_FILE = "stage.json"


class StageFolder:
    """Paths of a stage's files, and ``stage.json``: what the stage depends on, its status and its numbers.

    Args:
        path: the stage's folder; made when missing.
        name: the stage's name in the recipe.
        kind: the stage's kind in the registry.
        identity: what the stage's result depends on.
        on_change: called after ``stage.json`` changed.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        kind: str = "",
        identity: StageIdentity | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.path, self.name, self.kind = path, name, kind
        self._identity = identity or StageIdentity({}, {}, {})
        self._on_change = on_change
        path.mkdir(parents=True, exist_ok=True)
        recover_folders(path)
        self._notes = read_notes(path)

    @property
    def metrics(self) -> Path:
        """``metrics.jsonl``, a line for every logged step."""
        return self.path / "metrics.jsonl"

    @property
    def advice(self) -> Path:
        """``advice.jsonl``, what the metrics say of the stage's health."""
        return self.path / "advice.jsonl"

    @property
    def tensorboard(self) -> Path:
        """``tb/``, the event files."""
        return self.path / "tb"

    @property
    def samples(self) -> Path:
        """``samples.jsonl``, what the model said at each evaluation."""
        return self.path / "samples.jsonl"

    @property
    def rows(self) -> Path:
        """``rows.jsonl``, which rows of the data each step read."""
        return self.path / "rows.jsonl"

    @property
    def checkpoints(self) -> Path:
        """``checkpoints/``, the states to go on from."""
        return self.path / "checkpoints"

    @property
    def final(self) -> Path:
        """``final/``, the finished model."""
        return self.path / "final"

    @property
    def finished(self) -> bool:
        """True when the stage ended and its model is there."""
        return self._notes.get("status") == "done" and self.final.is_dir()

    @property
    def result(self) -> StageResult | None:
        """The stage in numbers as last noted; None before the first note."""
        numbers = self._notes.get("result")
        return StageResult(**numbers) if numbers else None

    def note(self, result: StageResult | None, status: Status = "running") -> None:
        """Writes the stage's numbers and status down.

        Args:
            result: the numbers so far; None keeps those noted before.
            status: where the stage stands.
        """
        numbers = asdict(result) if result is not None else self._notes.get("result")
        self._notes = {
            "name": self.name,
            "kind": self.kind,
            "status": status,
            "fingerprint": self._identity.fingerprint(),
            "identity": self._identity.to_json(),
            "result": numbers,
        }
        write_json(self.path / STAGE_FILE, self._notes)
        self._on_change()

    def finish(self, result: StageResult) -> None:
        """Notes that the stage is done."""
        self.note(result, "done")

    def write_final(self, fill: Callable[[Path], None]) -> None:
        """Makes ``final/`` appear at once with all its files.

        Args:
            fill: writes the files into the empty folder it is given.
        """
        write_folder(self.final, fill)


def read_notes(path: Path) -> dict[str, Any]:
    """Reads a stage's ``stage.json``; empty when it is missing or damaged."""
    try:
        notes = json.loads((path / STAGE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


def outdated(path: Path, identity: StageIdentity) -> list[str]:
    """Tells what has changed since a stage's files were written.

    Args:
        path: the stage's folder; may be missing.
        identity: what the stage depends on now.

    Returns:
        A line for every difference; empty when the files fit, or there are none.
    """
    if not path.is_dir() or not any(path.iterdir()):
        return []
    notes = read_notes(path)
    if not notes:
        return ["its stage.json is missing"]
    if notes.get("fingerprint") == identity.fingerprint():
        return []
    return differences(notes.get("identity", {}), identity.to_json()) or ["its fingerprint"]
