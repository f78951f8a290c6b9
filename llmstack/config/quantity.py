"""Amounts that carry their unit: ``2M tokens``, ``1.5k steps``, ``2 epochs``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from llmstack.config.base import complaint

_PATTERN = re.compile(r"([+-]?(?:\d[\d_]*)?\.?\d+(?:e[+-]?\d+)?)\s*([kMG]?)\s*([A-Za-z]*)")
_SCALE = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


@dataclass(frozen=True)
class Quantity:
    """An amount and its unit.

    Attributes:
        amount: how many; whole for tokens and steps.
        unit: ``tokens``, ``steps`` or ``epochs``.
    """

    amount: int | float
    unit: str

    def steps(self, steps_per_epoch: int, tokens_per_epoch: int) -> int:
        """Converts a budget to optimizer steps, rounding up.

        Args:
            steps_per_epoch: optimizer steps in one pass over the data.
            tokens_per_epoch: real tokens in one pass over the data.

        Returns:
            The number of optimizer steps, at least 1 for a positive amount.
        """
        if self.unit == "steps":
            return int(self.amount)
        epochs = Fraction(self.amount) / (tokens_per_epoch if self.unit == "tokens" else 1)
        return math.ceil(epochs * steps_per_epoch)

    def __str__(self) -> str:
        """The shortest text that reads back as the same quantity."""
        for suffix, scale, least in (("G", 10**9, 10**9), ("M", 10**6, 10**6), ("k", 10**3, 10**4)):
            # six digits are what :g keeps
            if least <= self.amount < 10**5 * scale and self.amount * 10 % scale == 0:
                return f"{self.amount / scale:g}{suffix} {self.unit}"
        return f"{self.amount} {self.unit.removesuffix('s') if self.amount == 1 else self.unit}"


@dataclass(frozen=True)
class Units:
    """The pydantic rule behind :data:`Budget` and its like.

    Attributes:
        allowed: units that fit this key, the usual one first.
        zero: whether 0 is allowed.
    """

    allowed: tuple[str, ...]
    zero: bool = False

    def parse(self, value: Any) -> Quantity:
        """Reads a quantity.

        Args:
            value: a text such as ``2M tokens``, or a Quantity.

        Returns:
            The quantity, with a whole amount when the unit is tokens or steps.

        Raises:
            PydanticCustomError: what was expected, what was given, what to write instead.
        """
        if isinstance(value, Quantity):
            value = str(value)
        match = _PATTERN.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            raise self._complaint(
                value, f"Write a unit: `{value} {self.allowed[0]}`." if is_number else "Write a number and a unit."
            )
        digits, suffix, word = match.groups()
        unit = word if word.endswith("s") else f"{word}s"
        if unit not in self.allowed:
            fix = f"`{word}` does not fit here: write" if word else "Write a unit:"
            raise self._complaint(value, f"{fix} `{digits}{suffix} {self.allowed[0]}`.")
        amount = Fraction(digits.replace("_", "")) * _SCALE[suffix]
        if amount < 0 or (amount == 0 and not self.zero):
            raise self._complaint(value, f"Write {'0 or more' if self.zero else 'more than 0'}.")
        if unit != "epochs" and amount.denominator != 1:
            raise self._complaint(value, f"Write a whole number of {unit}.")
        return Quantity(int(amount) if amount.denominator == 1 else float(amount), unit)

    def _complaint(self, value: Any, fix: str) -> PydanticCustomError:
        return complaint(f"expected an amount of {self._units()}, e.g. `{self._example()}`, got {value!r}. {fix}")

    def _units(self) -> str:
        *first, last = self.allowed
        return f"{', '.join(first)} or {last}" if first else last

    def _example(self) -> str:
        return {"steps": "200 steps", "tokens": "2M tokens", "epochs": "2 epochs"}[self.allowed[0]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Decodes with :meth:`parse`, writes the text form."""
        description = f"An amount of {self._units()}, e.g. {self._example()}."
        units = "|".join(f"{unit}?" for unit in self.allowed)
        js_schema = {
            "type": "string",
            "description": description,
            "pattern": rf"^\s*[0-9][0-9_.]*(e[0-9]+)?\s*[kMG]?\s*({units})\s*$",
        }
        return core_schema.no_info_plain_validator_function(
            self.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json"),
            metadata={"pydantic_js_functions": [lambda _schema, _js: dict(js_schema)]},
        )


Budget: TypeAlias = Annotated[Quantity, Units(("steps", "tokens", "epochs"))]
"""How long to train: more than 0 steps, tokens or epochs."""

Tokens: TypeAlias = Annotated[Quantity, Units(("tokens",))]
"""More than 0 tokens."""

Position: TypeAlias = Annotated[Quantity, Units(("tokens",), zero=True)]
"""A moment of a run, counted in tokens from its beginning."""

Interval: TypeAlias = Annotated[Quantity, Units(("steps",))]
"""Something every so many steps; ``amount`` is a positive int."""

StepCount: TypeAlias = Annotated[Quantity, Units(("steps",), zero=True)]
"""A number of steps that may be 0; ``amount`` is an int."""
