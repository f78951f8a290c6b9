"""Stopping on SIGTERM and SIGINT without losing the work."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

from typing_extensions import Self

from llmstack.runtime.logging import get_logger

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Remembers the first SIGTERM or SIGINT while it is entered; a second one ends the process at once.

    Attributes:
        signum: the signal that came, or None.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python delivers signals to the main thread only, and lets nobody else set handlers
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, signum: int, _: FrameType | None) -> None:
        if self.signum is not None:
            os._exit(128 + signum)
        self.signum = signum
        name = signal.Signals(signum).name
        get_logger("engine").warning("%s: saving after this step, then stopping; once more stops at once", name)
