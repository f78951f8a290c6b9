"""Counts the graphs MindSpore compiles and the seconds it takes.

:func:`install` wraps the ``compile`` of MindSpore's two C++ executors (Cells in GRAPH_MODE, functions under ``jit``).
MindSpore's own cache stands before them: they are reached only when a cell, a shape, a dtype or a Python value is new.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Compiles:
    """What has been compiled since :func:`install`.

    Attributes:
        graphs: graphs compiled.
        seconds: wall time spent compiling them.
    """

    graphs: int = 0
    seconds: float = 0.0

    def __sub__(self, earlier: Compiles) -> Compiles:
        """What was compiled in between."""
        return Compiles(self.graphs - earlier.graphs, self.seconds - earlier.seconds)


class _Counter:
    """The running totals of this process."""

    installed = False
    totals = Compiles()

    @classmethod
    def add(cls, seconds: float) -> None:
        cls.totals = Compiles(cls.totals.graphs + 1, cls.totals.seconds + seconds)


def install() -> None:
    """Starts counting in this process; a second call does nothing. Imports MindSpore."""
    if _Counter.installed:
        return
    c_expression = importlib.import_module("mindspore._c_expression")
    for executor in (c_expression.GraphExecutor_, c_expression.JitExecutor_):
        executor.compile = _counting(executor.compile)
    _Counter.installed = True


def snapshot() -> Compiles:
    """Gives the totals so far; zeros when :func:`install` was never called."""
    return _Counter.totals


def _counting(compile_graph: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any) -> Any:
        started = time.perf_counter()
        result = compile_graph(*args)
        _Counter.add(time.perf_counter() - started)
        return result

    return counted
