"""Regular expressions over a model's text, which may be anything, in bounded time."""

from __future__ import annotations

import regex

TIMEOUT_SECONDS = 1.0
"""For one search in one text. A pattern such as ``(a+)+$`` would else take longer than the run."""

_FLAGS = {"ignore_case": regex.IGNORECASE, "multiline": regex.MULTILINE, "dotall": regex.DOTALL}


class Pattern:
    """A compiled pattern; every search ends within :data:`TIMEOUT_SECONDS`.

    Args:
        text: the pattern, checked when the recipe was decoded.
        flags: names of flags: ``ignore_case``, ``multiline``, ``dotall``.
    """

    def __init__(self, text: str, flags: tuple[str, ...] = ()) -> None:
        self._compiled = regex.compile(text, sum((_FLAGS[name] for name in flags), start=regex.V0))

    def matches(self, text: str, *, whole: bool) -> bool:
        """Whether the pattern is in a text.

        Args:
            text: an answer.
            whole: it must match all of the text.

        Raises:
            TimeoutError: the search took too long.
        """
        find = self._compiled.fullmatch if whole else self._compiled.search
        return find(text, timeout=TIMEOUT_SECONDS) is not None

    def last(self, text: str) -> str | None:
        """What the last match holds: its first group when the pattern has groups, else all of it.

        Args:
            text: an answer.

        Returns:
            The text; None without a match.

        Raises:
            TimeoutError: the search took too long.
        """
        found = self._last(text)
        if found is None:
            return None
        held: str | None = found.group(1 if self._compiled.groups else 0)
        return held or ""

    def after_last(self, text: str) -> str | None:
        """What follows the last match.

        Args:
            text: an answer.

        Returns:
            The rest of the text; None without a match.

        Raises:
            TimeoutError: the search took too long.
        """
        found = self._last(text)
        return None if found is None else text[found.end() :]

    def _last(self, text: str) -> regex.Match[str] | None:
        last = None
        for found in self._compiled.finditer(text, timeout=TIMEOUT_SECONDS):
            last = found
        return last
