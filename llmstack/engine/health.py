"""What a stage's log lines say about its health: known troubles, each with one plain sentence of advice.

A rule is a function of the last readings of some metrics. It gives a severity, 1 where the trouble begins, and a
sentence. Advice is given once when a trouble begins; the trouble is over when the severity falls below ``CLEARED``.
The rules are in :mod:`llmstack.engine.health_rules`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WINDOW = 16
"""Readings of a metric that a rule can look back on."""
FIRST = 3
"""Readings at the beginning of a stage that later ones are compared with."""
CLEARED = 0.75
"""A trouble that began at severity 1 is over below this, so that a value near its limit does not chatter."""


@dataclass
class Series:
    """The first and the latest readings of a metric; NaN where the line had null.

    Attributes:
        first: the first ``FIRST`` finite readings.
        latest: the last ``WINDOW`` readings, oldest first.
        steps: the steps of those.
    """

    first: list[float] = field(default_factory=list)
    latest: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    steps: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def add(self, step: int, value: float | None) -> None:
        """Take in the next reading.

        Args:
            step: of its log line.
            value: a number; None or one that is not finite is written as null.
        """
        finite = value is not None and math.isfinite(value)
        self.latest.append(float(value) if value is not None and finite else math.nan)
        self.steps.append(step)
        if finite and len(self.first) < FIRST:
            self.first.append(self.latest[-1])


class Readings:
    """The series of a stage, as rules read them: what is not there yet is NaN."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}

    def add(self, step: int, name: str, value: float | None) -> None:
        """Take in a metric's next reading.

        Args:
            step: of the log line.
            name: the metric.
            value: its value on the line.
        """
        self._series.setdefault(name, Series()).add(step, value)

    def knows(self, name: str) -> bool:
        """Whether the metric was ever on a line.

        Args:
            name: the metric.
        """
        return name in self._series

    def latest(self, name: str, count: int, *, before: int = 0) -> np.ndarray:
        """The last readings of a metric, oldest first.

        Args:
            name: the metric.
            count: how many.
            before: how many newer ones are left out.

        Returns:
            (count,) float64; (0,) when there are not that many.
        """
        readings = self.window(name)
        end = len(readings) - before
        return readings[end - count : end] if end >= count else readings[:0]

    def window(self, name: str) -> np.ndarray:
        """All readings of a metric that can be looked back on, oldest first.

        Args:
            name: the metric.

        Returns:
            (N,) float64, at most ``WINDOW``.
        """
        return np.asarray(self._series[name].latest if name in self._series else [], np.float64)

    def steps_between(self, name: str, count: int) -> int:
        """Steps from the first to the last of a metric's last readings; 0 when there are too few.

        Args:
            name: the metric.
            count: how many readings.
        """
        steps = list(self._series[name].steps) if name in self._series else []
        return steps[-1] - steps[-count] if len(steps) >= count else 0

    def mean(self, name: str, count: int, *, before: int = 0) -> float:
        """Mean of a metric's last readings, null ones left out; NaN when there are too few.

        Args:
            name: the metric.
            count: how many readings.
            before: how many newer ones are left out.
        """
        readings = self.latest(name, count, before=before)
        finite = readings[np.isfinite(readings)]
        return float(finite.mean()) if finite.size else math.nan

    def first(self, name: str) -> float:
        """Mean of a metric's first readings; NaN until all of them are there.

        Args:
            name: the metric.
        """
        first = self._series[name].first if name in self._series else []
        return float(np.mean(first)) if len(first) == FIRST else math.nan


def all_of(*severities: float) -> float:
    """Severity of a trouble with several signs that must all be there.

    Args:
        severities: of the signs.

    Returns:
        The least of them; NaN when one is not known.
    """
    return math.nan if any(math.isnan(severity) for severity in severities) else min(severities)


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's correlation of the pairs that are both finite.

    Args:
        a: (N,) float.
        b: (N,) float.

    Returns:
        -1 to 1; 0 when one of the two does not vary; NaN for fewer than three pairs.
    """
    if a.shape != b.shape:
        return math.nan
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 3:
        return math.nan
    x, y = a[both] - a[both].mean(), b[both] - b[both].mean()
    size = math.sqrt(float((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / size if size > 0 else 0.0


@dataclass(frozen=True)
class Finding:
    """What a rule says of the present readings.

    Attributes:
        severity: 1 where the trouble begins; NaN when the readings do not tell.
        sentence: what is seen and what to do.
    """

    severity: float
    sentence: str


Rule = Callable[[Readings], Finding]
"""Its name is the trouble's."""


@dataclass(frozen=True)
class Advice:
    """A trouble that has just begun.

    Attributes:
        step: the step of the log line that shows it.
        name: of the trouble.
        sentence: what is seen and what to do.
    """

    step: int
    name: str
    sentence: str


class Monitor:
    """Reads log lines and says when a trouble begins. Its state is a function of the lines alone.

    Args:
        rules: what is looked for.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._readings = Readings()
        self._present: set[str] = set()

    @property
    def present(self) -> frozenset[str]:
        """Names of the troubles that have begun and are not over."""
        return frozenset(self._present)

    def read(self, step: int, line: Mapping[str, float | None]) -> list[Advice]:
        """Take in the next log line.

        Args:
            step: its step.
            line: metrics by name.

        Returns:
            Advice on what begins with this line.
        """
        for name, value in line.items():
            self._readings.add(step, name, value)
        begun = []
        for rule in self._rules:
            finding = rule(self._readings)
            name = rule.__name__
            if finding.severity >= 1.0 and name not in self._present:
                self._present.add(name)
                begun.append(Advice(step, name, finding.sentence))
            elif finding.severity < CLEARED:
                self._present.discard(name)
        return begun

    def replay(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Take in lines whose advice has been given already.

        Args:
            lines: lines of ``metrics.jsonl``, each with its ``step``.
        """
        for line in lines:
            self.read(line["step"], line)
