"""The numbers of a stage: ``metrics.jsonl``, TensorBoard and ``samples.jsonl``, all cut back on resume."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import Self

from llmstack.engine.atomic import finite_or_none, write_text
from llmstack.runtime.device import use_python_protobuf


class JsonLines:
    """A file of JSON objects, one a line, each with a ``step``.

    A line is handed to the system at once, so a killed process loses none; a line a crash left half written is dropped
    when the file is opened again.

    Args:
        path: the file.
        after: step gone on from; lines of later steps are removed. -1 starts an empty file.
    """

    def __init__(self, path: Path, *, after: int) -> None:
        if path.exists():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            write_text(path, "".join(line for line in lines if line.endswith("\n") and 0 <= _step(line) <= after))
        self._file = path.open("a", encoding="utf-8")

    def append(self, line: Mapping[str, Any]) -> None:
        """Writes one object; a non-finite number becomes null."""
        self._file.write(json.dumps(finite_or_none(dict(line)), allow_nan=False, ensure_ascii=False) + "\n")
        self._file.flush()

    def sync(self) -> None:
        """Waits until everything written is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MetricsLog:
    """Metrics of one stage, in ``metrics.jsonl`` and in TensorBoard files of the same values.

    Args:
        path: the JSONL file.
        tensorboard: folder of the event files.
        after: step gone on from; lines of later steps are removed, so the log equals that of a run never stopped.
            -1 starts an empty log.
    """

    def __init__(self, path: Path, tensorboard: Path, *, after: int) -> None:
        use_python_protobuf()
        from tensorboardX import SummaryWriter  # costs 0.3 s to import, and imports protobuf

        self._lines = JsonLines(path, after=after)
        self._board = SummaryWriter(str(tensorboard), purge_step=after + 1, write_to_disk=True)

    def write(self, step: int, tokens: int, values: Mapping[str, float | None]) -> None:
        """Adds one line: ``step``, ``tokens``, ``time`` (Unix seconds) and the values.

        Args:
            step: steps finished.
            tokens: real tokens worked on so far.
            values: numbers by name; one that is not finite is written as null.

        Raises:
            TypeError: a value is not a number.
        """
        numbers = {name: _number(name, value) for name, value in values.items()}
        now = time.time()
        self._lines.append({"step": step, "tokens": tokens, "time": round(now, 3), **numbers})
        for name, value in numbers.items():
            if value is not None:
                self._board.add_scalar(name, value, step, walltime=now)

    def sync(self) -> None:
        """Waits until everything written is on the disk."""
        self._lines.sync()
        self._board.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._board.close()


def _number(name: str, value: Any) -> float | int | None:
    if value is None:
        return None
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}: expected a number, got {value!r}.")
    if isinstance(value, int):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None


def _step(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return -1
