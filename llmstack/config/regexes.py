"""A field that holds a regular expression."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from llmstack.config.base import complaint


def _check(pattern: str) -> str:
    import regex  # costs a tenth of a second, which only recipes with a pattern pay

    try:
        regex.compile(pattern)
    except regex.error as error:
        raise complaint(f"expected a regular expression, got {pattern!r} ({error}). Correct it.") from error
    return pattern


RegexText: TypeAlias = Annotated[str, AfterValidator(_check)]
"""A regular expression of the `regex` package, whose searches can be given a time limit."""
