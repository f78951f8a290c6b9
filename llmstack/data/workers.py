"""Functions over batches, in several processes, with results in order."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import Self

from llmstack.errors import LlmstackError

T = TypeVar("T")
R = TypeVar("R")

_ITEMS_AHEAD = 3
"""Items a process that are handed out before their turn: memory stays bounded, and no process waits for another."""
_loaded: tuple[Path, Callable[[Any], Any]] | None = None
"""In a worker process: the function it has read last, and from where."""


class Workers:
    """Processes that are started when there is work for them, and end with the block.

    They are started anew (spawn): nothing of this process, such as a framework's threads, is copied into them.

    Args:
        count: how many; with 1 the work is done here.
        scratch: an existing folder for files that nobody needs afterwards.
    """

    def __init__(self, count: int, scratch: Path) -> None:
        self._count, self._scratch = count, scratch
        self._pool: ProcessPoolExecutor | None = None
        self._num_functions = 0

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results of a function for each item, in the items' order; items are taken as results are.

        Args:
            function: picklable; each process reads it once. It may be large.
            items: picklable. One alone is worked on here.

        Yields:
            One result an item.

        Raises:
            LlmstackError: a process died, which the system does to one that takes too much memory.
        """
        stream = iter(items)
        first = list(islice(stream, 2))
        if self._count == 1 or len(first) < 2:
            yield from map(function, chain(first, stream))
            return
        path = self._scratch / f"function-{self._num_functions}.pickle"
        self._num_functions += 1
        path.write_bytes(pickle.dumps(function))
        pool = self._started()
        waiting: deque[Future[Any]] = deque()
        try:
            for item in chain(first, stream):
                with _interrupts_held():  # submitting starts processes
                    waiting.append(pool.submit(_work, path, item))
                if len(waiting) >= self._count * _ITEMS_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise LlmstackError(
                "workers: expected processes that live until the work is done, got one that was ended from outside. "
                "When memory ran out, set fewer workers."
            ) from error

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._count, mp_context=context, initializer=_start)
        return self._pool

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """SIGINT waits; processes started inside never get it. Ctrl-C reaches all of them, but the main one decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(path: Path, item: Any) -> Any:
    global _loaded
    if _loaded is None or _loaded[0] != path:
        _loaded = (path, pickle.loads(path.read_bytes()))
    return _loaded[1](item)
