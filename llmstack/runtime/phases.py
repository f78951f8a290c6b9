"""How long the parts of a step take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from llmstack.runtime import compile_count


class PhaseTimes:
    """Adds up the seconds spent in named phases, compiling not counted."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is inside as part of a phase. Phases do not nest.

        Args:
            name: of the phase.
        """
        started, compiles = time.perf_counter(), compile_count.snapshot()
        try:
            yield
        finally:
            compiling = (compile_count.snapshot() - compiles).seconds
            spent = time.perf_counter() - started - compiling
            self._seconds[name] = self._seconds.get(name, 0.0) + spent

    def take(self) -> dict[str, float]:
        """Seconds of each phase since the last call, by name."""
        seconds, self._seconds = self._seconds, {}
        return seconds
