"""The queue: rows that wait for a person, and what people have filled in so far.

The file of the queue is written anew by each run, and people edit it in between, or while one runs. What they have
filled in therefore goes into a file of its own first, which is only ever added to.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llmstack.annotation.people import HumanLabel, add_label, collect, read_rows, rows_of
from llmstack.config.annotation import Task
from llmstack.engine.atomic import write_text
from llmstack.errors import UserError

LABELS_FILE, LOCK_FILE = "queue_labels.jsonl", ".lock"


class HumanQueue:
    """The queue's file and that of the labels from it.

    Args:
        path: the queue.
        folder: where the labels are kept.
        task: what kind of label is wanted.
        labels: class: the allowed ones.

    Attributes:
        path: the queue.
    """

    def __init__(self, path: Path, folder: Path, task: Task, labels: Sequence[str]) -> None:
        self.path, self._kept = path, folder / LABELS_FILE
        self._task, self._labels = task, labels

    def labels(self) -> dict[str, HumanLabel]:
        """Everything people have said in the queue, in earlier runs and since.

        Returns:
            Labels by id of the item.

        Raises:
            DataError: a label that is not allowed, or another than the item had before; names the line.
        """
        found, _ = collect(read_rows(self._kept), self._task, self._labels)
        filled, _ = collect(read_rows(self.path), self._task, self._labels)
        for said in filled.values():
            add_label(found, said)
        return found

    def write(self, labels: Mapping[str, HumanLabel], rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep what was said, then replace the queue.

        Args:
            labels: those of :meth:`labels`.
            rows: what waits for people now.
        """
        write_rows(self._kept, list(rows_of(labels)))
        write_rows(self.path, rows)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Inside, no other process is inside for this folder.

    Args:
        folder: made when missing.

    Raises:
        UserError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_FILE).open("a", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"out: expected a folder that can be written, got {folder} ({error.strerror}). Choose another."
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a JSON Lines file, whole or not at all.

    Args:
        path: the file; its folder is made when missing.
        rows: an object each.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows))
