"""Ctrl-C as a question that is asked between two calls of a graph."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from typing_extensions import Self

_SIGINT = {signal.SIGINT}


class Interrupts:
    """Keeps SIGINT waiting while it is entered, except where :meth:`allowed` lets it in.

    MindSpore sets its own handler for SIGINT whenever a graph runs, and that one ends the process; a handler of Python
    does not survive the first graph. A blocked signal waits whatever the handler. Threads inherit the block, so this
    is entered before any library that starts some is imported.
    """

    def __enter__(self) -> Self:
        """Block the signal."""
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGINT)
        self._handler = signal.getsignal(signal.SIGINT)
        return self

    def __exit__(self, *_: object) -> None:
        self.came()
        signal.signal(signal.SIGINT, self._handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def came(self) -> bool:
        """Whether Ctrl-C was pressed since this was last asked."""
        return signal.sigtimedwait(_SIGINT, 0) is not None

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Inside, Ctrl-C raises KeyboardInterrupt; at once when it was pressed before."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGINT)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGINT)
