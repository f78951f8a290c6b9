"""What the loop and a stage tell each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class StepReport:
    """What one step of a stage did.

    Attributes:
        metrics: measurements of this step by name (``train/loss``); a log line holds their mean since the line before,
            over the steps where they were finite.
        tokens: real tokens the step worked on.
        gauges: readings that are logged as they stand, not averaged (``train/lr``).
        skipped: True when a gradient was not finite, so that the step changed nothing.
        shown: names of the metrics that a person watching wants to see, the most telling first.
        rows: numbers of the rows of the data the step read, by part of the data.
        seconds: how long each part of the step took, compiling not counted; a log line has their means as
            ``seconds/<part>``.
    """

    metrics: Mapping[str, float]
    tokens: int
    gauges: Mapping[str, float] = field(default_factory=dict)
    skipped: bool = False
    shown: Sequence[str] = ("train/loss",)
    rows: Mapping[str, Sequence[int]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class StageState:
    """Everything a stage needs to go on as if it had never stopped.

    Attributes:
        params: trained weights by name.
        optimizer: moments and step counters by name.
        trainer: the rest (loader position, controllers, running statistics), plain JSON.
    """

    params: Mapping[str, np.ndarray]
    optimizer: Mapping[str, np.ndarray]
    trainer: Mapping[str, Any]


class Trainable(Protocol):
    """What the loop asks of a stage."""

    @property
    def total_steps(self) -> int:
        """Steps of the whole stage."""
        ...

    def step(self, index: int) -> StepReport:
        """Takes step ``index``, counted from 1."""
        ...

    def undo_step(self) -> None:
        """Puts back what a step had taken before it raised StepUndone, so that ``state`` is that before the step."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Measures the model on data it never trains on; every name starts with ``eval/``. Changes no state."""
        ...

    def samples(self) -> list[dict[str, Any]]:
        """What the model says now, one JSON object a sample; may be empty. Changes no state."""
        ...

    def state(self) -> StageState:
        """Copies out the state after the last step."""
        ...

    def restore(self, state: StageState) -> None:
        """Puts a state from :meth:`state` back."""
        ...

    def save_final(self, folder: Path) -> None:
        """Writes the finished model into an empty folder."""
        ...
