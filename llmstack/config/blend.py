"""Blends: several sources in one corpus, with shares that may change over the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, complaint, reject
from llmstack.config.data import AnySource, SourceConfig
from llmstack.config.quantity import Position, Tokens


class WeightPoint(Strict):
    """The weight of a part at one moment of the run."""

    at: Position
    """When: tokens read so far, from all parts together."""
    weight: float = Field(ge=0)
    """Share of the rows, relative to the other parts' weights."""


class WeightSchedule(Strict):
    """A weight that changes over the run."""

    shape: Literal["linear", "cosine", "steps"]
    """Between two points: a straight line, half a cosine wave, or the weight of the earlier one."""
    points: tuple[WeightPoint, ...] = Field(min_length=1)
    """In rising order of ``at``; before the first and behind the last the weight stays what it is there."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        amounts = [point.at.amount for point in self.points]
        if amounts != sorted(set(amounts)):
            got = ", ".join(str(point.at) for point in self.points)
            reject(self, {"points": f"expected rising amounts in `at`, got {got}. Put them in order, each once."})
        return self


def _from_number(value: Any) -> Any:
    if isinstance(value, Mapping | WeightSchedule):
        return value
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise complaint(f"expected a number, or a mapping with `shape` and `points`, got {value!r}. Write a number.")
    if not 0 <= value < math.inf:
        raise complaint(f"expected a number of at least 0, got {value!r}. Correct it.")
    return {"shape": "steps", "points": [{"at": "0 tokens", "weight": value}]}


Weight: TypeAlias = Annotated[WeightSchedule, BeforeValidator(_from_number)]
"""A number, or a schedule."""

PartName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""Names a part in metrics and in the log of rows."""


class PartConfig(Strict):
    """One part of a blend."""

    data: AnySource
    """Where its records come from."""
    weight: Weight
    """Share of the rows, relative to the other parts' weights: a number, or ``{shape:, points:}``."""
    max_epochs: float | None = Field(default=None, gt=0)
    """Passes over the part after which the others take its share; null sets no bound."""
    max_tokens: Tokens | None = None
    """Tokens of the part after which the others take its share; null sets no bound."""


class BlendConfig(SourceConfig):
    """Several sources in one corpus. Only for a stage's ``data``."""

    parts: dict[PartName, PartConfig] = Field(min_length=1)
    """The parts by name."""

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        moments = sorted({point.at.amount for part in self.parts.values() for point in part.weight.points})
        for moment in moments:
            if not any(has_weight(part.weight, moment) for part in self.parts.values()):
                text = f"expected a part with a weight above 0 at every moment, got none at {moment} tokens. Raise one."
                reject(self, {"parts": text})
        return self


def has_weight(schedule: WeightSchedule, tokens: float) -> bool:
    """Whether a weight is above 0 at a position.

    Args:
        schedule: the weight.
        tokens: the position.
    """
    before = [point for point in schedule.points if point.at.amount <= tokens]
    after = [point for point in schedule.points if point.at.amount > tokens]
    if not before:
        return after[0].weight > 0
    if before[-1].weight > 0:  # what falls from there is 0 at the next point, not before
        return True
    # what rises from 0 has begun to rise behind the point
    rising = schedule.shape != "steps" and bool(after) and before[-1].at.amount < tokens
    return rising and after[0].weight > 0
