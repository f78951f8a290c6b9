"""What every configuration model shares: strict types, frozen, no unknown keys, a description per field."""

from __future__ import annotations

from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError


class Strict(BaseModel):
    """A frozen model that refuses unknown keys and never converts a type. Decoding has no side effects."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        validate_default=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _lists_to_tuples(cls, data: Any) -> Any:
        """YAML has lists only; a frozen model holds tuples."""
        if not isinstance(data, dict):
            return data
        return {
            key: tuple(value) if isinstance(value, list) and cls._is_tuple_field(key) else value
            for key, value in data.items()
        }

    @classmethod
    def _is_tuple_field(cls, key: str) -> bool:
        field = cls.model_fields.get(key)
        if field is None:
            return False
        kind = field.annotation
        # a field that may be null has its tuple among the members of a union
        members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        return any(get_origin(member) is tuple for member in members)


def reject(model: BaseModel, problems: dict[str, str]) -> None:
    """Refuses combinations of values that are fine one by one; called from a model's ``after`` validator.

    Args:
        model: the instance being checked.
        problems: key as written in the recipe -> ``expected ..., got .... <fix>.``; empty means all is well.

    Raises:
        ValidationError: with every problem at its own key.
    """
    if problems:
        raise_at(type(model).__name__, {(key,): text for key, text in problems.items()}, model)


def complaint(text: str) -> PydanticCustomError:
    """Makes the error a field's validator raises, whose text reaches the user as it is.

    Args:
        text: ``expected ..., got .... <fix>.``

    Returns:
        The error to raise.
    """
    return PydanticCustomError("llmstack", "{text}", {"text": text})


def raise_at(title: str, problems: dict[tuple[str, ...], str], value: Any) -> NoReturn:
    """Raises a validation error whose problems sit at the given locations below the value being validated.

    Args:
        title: what was being validated.
        problems: location -> message.
        value: the offending input.

    Raises:
        ValidationError: always.
    """
    details = [InitErrorDetails(type=complaint(text), loc=location, input=value) for location, text in problems.items()]
    raise ValidationError.from_exception_data(title, details)
