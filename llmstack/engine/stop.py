"""Stopping on SIGINT (Ctrl-C) and SIGTERM: who gets the signal, and what it means at that moment.

MindSpore sets its own handler for SIGINT each time a graph runs; that one sends the process SIGTERM, and a handler of
Python does not survive the first graph. :class:`Interrupts` therefore takes SIGINT away from all handlers. SIGTERM is
left alone by MindSpore and comes through Python's handlers.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, ClassVar

from typing_extensions import Self

from llmstack.errors import Terminated
from llmstack.runtime.logging import get_logger
from llmstack.runtime.stopping import REQUESTED

_SIGINT = {signal.SIGINT}


class Interrupts:
    """Gives SIGINT to whoever asked for it last while it is entered, whatever handlers a library sets.

    The signal is blocked, so that no handler runs, and a thread of ours waits for it. Threads inherit the block: enter
    this before any library that starts some is imported. Whoever is in :meth:`given_to` is told. When nobody is,
    KeyboardInterrupt is raised in the main thread, and a second SIGINT ends the process.

    Attributes:
        raised: KeyboardInterrupt was raised; a library may have made another error of it.
    """

    _entered: ClassVar[Interrupts | None] = None
    _receivers: ClassVar[list[Callable[[int], None]]] = []

    def __init__(self) -> None:
        self.raised = False
        self._left = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        # only the main thread may set handlers, and a second waiting thread would take signals from the first
        if threading.current_thread() is threading.main_thread() and Interrupts._entered is None:
            Interrupts._entered = self
            self._handler = signal.signal(signal.SIGINT, signal.default_int_handler)
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGINT)
            self._thread = threading.Thread(target=self._wait, name="llmstack-interrupts", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            return
        self._left = True
        signal.pthread_kill(self._thread.ident or 0, signal.SIGINT)  # wakes it
        self._thread.join()
        Interrupts._entered = None
        signal.signal(signal.SIGINT, self._handler)  # not only for Python: MindSpore's may be in its place
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    @classmethod
    @contextlib.contextmanager
    def given_to(cls, receiver: Callable[[int], None]) -> Iterator[None]:
        """Inside, SIGINT calls a function, in a thread of its own, and raises nothing.

        Args:
            receiver: is given the signal's number.
        """
        cls._receivers.append(receiver)
        try:
            yield
        finally:
            cls._receivers.remove(receiver)

    @classmethod
    @contextlib.contextmanager
    def raising(cls) -> Iterator[None]:
        """Inside, SIGINT raises KeyboardInterrupt in the main thread, and ends a system call such as reading a line.

        Run no graph inside.
        """
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGINT)  # the system prefers the main thread
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            signal.signal(signal.SIGINT, before)

    def _wait(self) -> None:
        while True:
            signal.sigwait(_SIGINT)
            if self._left:
                return
            if self._receivers:
                self._receivers[-1](signal.SIGINT)
            elif self.raised:
                end_at_once(signal.SIGINT)
            else:
                self.raised = True
                # reaches Python's own table of handlers, where MindSpore has put nothing
                _thread.interrupt_main(signal.SIGINT)


def end_at_once(signum: int) -> None:
    """Ends the process where there is nothing to save: also in the middle of a graph.

    Args:
        signum: the signal that asks for it; the exit status is 128 more.
    """
    os.write(2, b"llmstack: interrupted\n")
    os._exit(128 + signum)


class StopRequest:
    """Remembers the first SIGTERM or SIGINT while it is entered; a second one ends the process at once.

    Outside of :class:`Interrupts` a SIGINT may arrive as a SIGTERM, because MindSpore makes one of it.

    Attributes:
        signum: the signal that came, or None.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, Any] = {}
        self._given = contextlib.ExitStack()

    def __enter__(self) -> Self:
        REQUESTED.clear()
        # Python delivers signals to the main thread only, and lets nobody else set handlers
        if threading.current_thread() is threading.main_thread():
            self._before = {n: signal.signal(n, self._handle) for n in (signal.SIGTERM, signal.SIGINT)}
            self._given.enter_context(Interrupts.given_to(self._receive))
        return self

    def __exit__(self, *_: object) -> None:
        REQUESTED.clear()
        self._given.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, signum: int, _: FrameType | None) -> None:
        self._receive(signum)

    def _receive(self, signum: int) -> None:
        if self.signum is not None:
            os._exit(128 + signum)
        self.signum = signum
        REQUESTED.set()
        name = signal.Signals(signum).name
        get_logger("engine").warning("%s: saving after this step, then stopping; once more stops at once", name)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM raises :class:`Terminated` in the main thread, where no :class:`StopRequest` is entered."""

    def stop(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
