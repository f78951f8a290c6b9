"""Answers kept on the disk, so that none is paid for twice."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import Self

from llmstack.annotation.requests import Reply
from llmstack.errors import DataError

WAIT_SECONDS = 60.0
"""How long to wait while another process writes."""
_AT_ONCE = 500

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, source TEXT NOT NULL, request TEXT NOT NULL, reply TEXT NOT NULL, made REAL NOT NULL
)
"""


def key_of(source: str, model: str, body: Mapping[str, Any], sample: int) -> str:
    """What an answer is found by.

    Args:
        source: URL of the server, or hash of the model folder.
        model: name of the model there.
        body: everything the answer depends on.
        sample: which of several answers to the same request.

    Returns:
        sha256 hex; the order of keys in ``body`` does not matter.
    """
    text = json.dumps([source, model, body, sample], sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class AnswerCache:
    """A SQLite file of answers. Threads and processes may share it; each answer is on the disk once it is kept.

    Args:
        path: the file; made, with its folder, when missing.

    Attributes:
        path: the file.

    Raises:
        DataError: the file cannot be written or is none of these.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        with self._readable():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            self._file.execute(_TABLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def find(self, keys: Sequence[str]) -> dict[str, Reply]:
        """The answers that are there.

        Args:
            keys: of :func:`key_of`.

        Returns:
            Those found, by key.
        """
        found: dict[str, Reply] = {}
        with self._readable():
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = self._file.execute(f"SELECT key, reply FROM answers WHERE key IN ({marks})", list(some))
                found |= {key: Reply(**json.loads(reply)) for key, reply in rows}
        return found

    def keep(self, key: str, reply: Reply, *, source: str, request: Mapping[str, Any]) -> Reply:
        """Keep an answer.

        Args:
            key: of :func:`key_of`.
            reply: the answer.
            source: who gave it, for people who look into the file.
            request: what was asked, for the same.

        Returns:
            The answer that is kept: another process may have been first.
        """
        row = (key, source, _json(request), _json(vars(reply)), time.time())
        with self._readable():
            self._file.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", row)
        return self.find([key])[key]

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise DataError(
                f"cache: expected a file of answers that can be read and written, got {self.path} ({error}). "
                "Check permissions and space, name another file, or move this one away."
            ) from error


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
