"""``advice.jsonl``: what the monitor says of a stage's log lines, in the run's log too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from typing_extensions import Self

from llmstack.engine.health import Monitor
from llmstack.engine.health_rules import RULES
from llmstack.engine.metrics import JsonLines
from llmstack.runtime.logging import get_logger


class AdviceLog:
    """Advice on one stage, given once for each trouble until it is over.

    Args:
        path: the JSONL file; each line has ``step``, ``name`` and ``sentence``.
        metrics: the stage's ``metrics.jsonl``, cut back to ``after`` already; its lines are read again, so that a
            resumed run gives the advice of one that was never stopped.
        stage: name of the stage.
        after: step gone on from; -1 starts an empty file.
    """

    def __init__(self, path: Path, metrics: Path, *, stage: str, after: int) -> None:
        self._stage, self._monitor = stage, Monitor(RULES)
        with metrics.open(encoding="utf-8") as lines:
            self._monitor.replay(json.loads(line) for line in lines)
        self._lines = JsonLines(path, after=after)

    def read(self, step: int, line: Mapping[str, float | None]) -> None:
        """Read a log line and give the advice it calls for.

        Args:
            step: its step.
            line: metrics by name.
        """
        for advice in self._monitor.read(step, line):
            self._lines.append(asdict(advice))
            get_logger("engine").warning("%s, step %d: %s", self._stage, step, advice.sentence)

    def sync(self) -> None:
        """Waits until everything written is on the disk."""
        self._lines.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
