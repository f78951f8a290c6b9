"""Turns pydantic's errors into the project's one form: ``expected <what>, got <value>. <what to change>.``"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from llmstack.config.provenance import COMMAND_LINE, Origins
from llmstack.config.walk import keys_of, model_at
from llmstack.errors import Problem
from llmstack.registry import did_you_mean

_LIMITS = {
    "greater_than": ("a number greater than {gt}", "Raise it."),
    "greater_than_equal": ("a number of at least {ge}", "Raise it."),
    "less_than": ("a number less than {lt}", "Lower it."),
    "less_than_equal": ("a number of at most {le}", "Lower it."),
    "multiple_of": ("a multiple of {multiple_of}", "Round it."),
    "finite_number": ("a finite number", "Write a number."),
    "string_pattern_mismatch": (
        "a text that matches {pattern}",
        "Use letters, digits, `_` and `-`, a letter or digit first.",
    ),
    "too_short": ("{min_length} or more entries", "Add one."),
    "too_long": ("{max_length} or fewer entries", "Remove some."),
}
_TYPES = {
    "invalid_key": ("a text as key", "Put quotes around it."),
    "int_type": ("a whole number", "Write digits without quotes, e.g. 8."),
    "int_from_float": ("a whole number", "Write it without a fraction, e.g. 8."),
    "float_type": ("a number", "Write digits without quotes, e.g. 0.1."),
    "bool_type": ("true or false", "Write true or false without quotes."),
    "string_type": ("a text", "Write a text; put quotes around digits."),
    "tuple_type": ("a list", "Write [a, b]."),
    "list_type": ("a list", "Write [a, b]."),
    "dict_type": ("a mapping", "Write `key: value` lines below it."),
    "model_type": ("a mapping", "Write `key: value` lines below it."),
}


def problems_of(error: ValidationError, model: type[BaseModel], tree: Any, origins: Origins) -> list[Problem]:
    """Words every error of a failed validation.

    Args:
        error: what pydantic raised.
        model: the class that was decoded.
        tree: the plain tree that was decoded.
        origins: where the tree's values came from.

    Returns:
        One problem an error, in pydantic's order.
    """
    return [_problem(details, model, tree, origins) for details in error.errors() if not _follows(details)]


def _follows(details: ErrorDetails) -> bool:
    """Whether a list is only called too short because pydantic does not count the entries it has refused already."""
    if details["type"] != "too_short" or not isinstance(details["input"], Sized):
        return False
    return len(details["input"]) >= int(details["ctx"]["min_length"])


def _problem(details: ErrorDetails, model: type[BaseModel], tree: Any, origins: Origins) -> Problem:
    location = tuple(key for key in details["loc"] if key != "[key]")
    path = ".".join(str(key) for key in location)
    where = origins.find(path)
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return Problem(path, _unknown_key(location, model, tree), where)
    if kind == "missing" or (kind == "llmstack" and _is_absent(location, tree)):
        ghost = _misspelt_parent(location, model, tree, origins)
        if ghost is not None:
            return ghost
    if kind == "missing":
        return Problem(path, _missing(location, model, tree, origins.left_open(path)), where)
    if kind == "llmstack":
        return Problem(path, str(context["text"]), where)
    if kind == "literal_error":
        return Problem(path, _not_a_choice(context["expected"], value), where)
    if kind in _TYPES or kind in _LIMITS:
        expected, fix = _TYPES.get(kind) or _LIMITS[kind]
        if kind == "tuple_type" and isinstance(value, str):
            fix = f"Write [{value}]."
        limits = {name: f"{limit:g}" if isinstance(limit, float) else limit for name, limit in context.items()}
        return Problem(path, f"expected {expected.format(**limits)}, got {_shown(value)}. {fix}", where)
    return Problem(path, f"expected a valid value, got {_shown(value)}: {details['msg']}. Correct it.", where)


def _unknown_key(location: tuple[str | int, ...], model: type[BaseModel], tree: Any) -> str:
    owner = model_at(model, tree, location[:-1])
    known = list(keys_of(owner)) if owner else []
    hint = did_you_mean(location[-1], known)
    fix = hint or "Remove it, or look at the list of known keys."
    return f"expected a known key ({', '.join(known)}), got {str(location[-1])!r}. {fix}"


def _missing(location: tuple[str | int, ...], model: type[BaseModel], tree: Any, left_open: str | None) -> str:
    owner = model_at(model, tree, location[:-1])
    field = keys_of(owner).get(str(location[-1])) if owner else None
    about = f" ({field.description.strip().rstrip('.')})" if field and field.description else ""
    fix = f"The recipe leaves it to you: pass {left_open}=VALUE." if left_open else f"Add `{location[-1]}:`."
    return f"expected a value{about}, got nothing. {fix}"


def _not_a_choice(expected: str, value: Any) -> str:
    choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
    fix = did_you_mean(value, choices) or "Write one of these."
    return f"expected {expected}, got {_shown(value)}. {fix}"


def _misspelt_parent(
    location: tuple[str | int, ...], model: type[BaseModel], tree: Any, origins: Origins
) -> Problem | None:
    """``stages.polcy.lr=1`` on the command line makes a nearly empty ``polcy``: name the sibling that was meant."""
    for depth in range(1, len(location)):
        parent, name = location[: depth - 1], location[depth - 1]
        path = ".".join(str(key) for key in location[:depth])
        siblings = _at(tree, parent)
        is_free_name = model_at(model, tree, parent) is None and isinstance(siblings, Mapping)
        if not is_free_name or origins.get(path) is not None:
            continue
        known = [str(key) for key in siblings if key != name]
        if known and origins.find_below(path) == {COMMAND_LINE}:
            fix = did_you_mean(name, known) or "Choose one of these, or give the new one all its keys in the recipe."
            return Problem(
                path, f"expected an existing key ({', '.join(known)}), got {str(name)!r}. {fix}", COMMAND_LINE
            )
    return None


def _is_absent(location: tuple[str | int, ...], tree: Any) -> bool:
    parent = _at(tree, location[:-1])
    return isinstance(parent, Mapping) and location[-1] not in parent


def _at(tree: Any, location: tuple[str | int, ...]) -> Any:
    for key in location:
        try:
            tree = tree[key]
        except (KeyError, IndexError, TypeError):
            return None
    return tree


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, BaseModel) else "a decoded value"
    return text if len(text) <= 80 else f"{text[:77]}..."
