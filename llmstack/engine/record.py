"""Counters of a stage's run: what goes on across a resume and what the summary is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from typing_extensions import Self

from llmstack.engine.atomic import finite_or_none
from llmstack.engine.protocol import StepReport

_SECONDS = "seconds/"


@dataclass(frozen=True)
class StageResult:
    """A stage in numbers, as ``summary.json`` shows it.

    Attributes:
        steps: steps finished.
        tokens: real tokens worked on.
        wall_seconds: time in the stage, all launches together.
        compile_seconds: of it, time spent compiling graphs.
        tokens_per_second: tokens over the time inside steps, compiles and evaluations not counted.
        graphs: graphs compiled in the last launch that took a step.
        metrics: last value of every metric; ``train/loss_first`` and ``eval/..._first`` hold the first ones.
    """

    steps: int
    tokens: int
    wall_seconds: float
    compile_seconds: float
    tokens_per_second: float
    graphs: int
    metrics: dict[str, float | None]


@dataclass
class Record:
    """The running counters, saved in every checkpoint.

    Attributes:
        step: steps finished.
        tokens: real tokens worked on.
        wall_seconds: time in the stage.
        step_seconds: time inside steps, without compiling.
        compile_seconds: time spent compiling.
        graphs: graphs compiled in this launch, or in the one before until this one takes a step.
        skipped_steps: steps that changed nothing because a gradient was not finite.
        skipped_in_row: the last ones of those without a good one between.
        first: first value of ``train/loss`` and of every ``eval/`` metric.
        last: last logged value of every metric.
        window: sum and count of every metric since the last log line.
        window_tokens: tokens since the last log line.
        window_seconds: step_seconds since the last log line.
    """

    step: int = 0
    tokens: int = 0
    wall_seconds: float = 0.0
    step_seconds: float = 0.0
    compile_seconds: float = 0.0
    graphs: int = 0
    skipped_steps: int = 0
    skipped_in_row: int = 0
    first: dict[str, float | None] = field(default_factory=dict)
    last: dict[str, float | None] = field(default_factory=dict)
    window: dict[str, list[float]] = field(default_factory=dict)
    window_tokens: int = 0
    window_seconds: float = 0.0

    def add_step(self, report: StepReport, seconds: float) -> None:
        """Counts a finished step.

        Args:
            report: what the step did.
            seconds: time it took, without compiling.
        """
        self.step += 1
        self.tokens += report.tokens
        self.step_seconds += seconds
        self.window_tokens += report.tokens
        self.window_seconds += seconds
        self.skipped_steps += report.skipped
        self.skipped_in_row = self.skipped_in_row + 1 if report.skipped else 0
        timed = {f"{_SECONDS}{part}": spent for part, spent in report.seconds.items()}
        for name, value in (dict(report.metrics) | timed).items():
            total = self.window.setdefault(name, [0.0, 0])
            if math.isfinite(value):
                total[0] += float(value)
                total[1] += 1
        for name, value in report.gauges.items():
            self.window[name] = [float(value), 1]
        if "train/loss" in report.metrics:
            self.first.setdefault("train/loss", float(report.metrics["train/loss"]))

    def take_window(self) -> dict[str, float | None]:
        """Gives the metrics since the last log line and starts a new window.

        Returns:
            Means over the finite values (None when there was none), readings as they stand,
            ``train/skipped_steps`` so far and ``tokens_per_second`` of the window.
        """
        line: dict[str, float | None] = {
            name: total / count if count else None for name, (total, count) in self.window.items()
        }
        line["train/skipped_steps"] = self.skipped_steps
        self.last.update({name: value for name, value in line.items() if not name.startswith(_SECONDS)})
        line["tokens_per_second"] = self.recent_speed
        self.window, self.window_tokens, self.window_seconds = {}, 0, 0.0
        return line

    def add_evaluation(self, values: Mapping[str, float]) -> dict[str, float | None]:
        """Keeps an evaluation's values as the last and, the first time, as the first ones."""
        checked = {name: float(value) if math.isfinite(value) else None for name, value in values.items()}
        for name, value in checked.items():
            self.first.setdefault(name, value)
            self.last[name] = value
        return checked

    def recent(self, name: str) -> float | None:
        """Gives a metric's mean since the last log line, or its last logged value right after one."""
        total, count = self.window.get(name, (0.0, 0))
        return total / count if count else self.last.get(name)

    @property
    def recent_speed(self) -> float:
        """Tokens a second since the last log line; of the whole stage right after one."""
        if self.window_seconds > 0:
            return self.window_tokens / self.window_seconds
        return self.tokens / self.step_seconds if self.step_seconds > 0 else 0.0

    def result(self) -> StageResult:
        """Sums up the stage so far."""
        return StageResult(
            steps=self.step,
            tokens=self.tokens,
            wall_seconds=round(self.wall_seconds, 3),
            compile_seconds=round(self.compile_seconds, 3),
            tokens_per_second=round(self.tokens / self.step_seconds, 1) if self.step_seconds > 0 else 0.0,
            graphs=self.graphs,
            metrics=finite_or_none({**{f"{name}_first": value for name, value in self.first.items()}, **self.last}),
        )

    def to_json(self) -> dict[str, Any]:
        """Gives every counter as plain JSON; a number that is not finite becomes None."""
        values: dict[str, Any] = finite_or_none(asdict(self))
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads what :meth:`to_json` gave."""
        return cls(**values)
