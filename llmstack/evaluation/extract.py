"""The final answer inside a longer text, and when two of them are the same."""

from __future__ import annotations

import re

from llmstack.errors import UserError

_MARKED = re.compile(r"####\s*(.+)")
_NUMBER = re.compile(r"-?(?:\d[\d,]*(?:\.\d+)?|\.\d+)")

_PLAIN = re.compile(r"([+-]?)(?=\.?\d)(\d*)(?:\.(\d*))?")


class Extractor:
    """Finds the final answer of a text.

    Without a pattern: what follows the last ``####`` on its line, as GSM8K writes it (Cobbe et al. 2021), else the
    last number. With one: its last match, the first group of it when it has groups.

    Args:
        pattern: a regular expression; None: as above.

    Raises:
        UserError: not a regular expression.
    """

    def __init__(self, pattern: str | None = None) -> None:
        self._pattern = None
        if pattern is not None:
            try:
                self._pattern = re.compile(pattern)
            except re.error as error:
                raise UserError(
                    f"--extract: expected a regular expression, got {pattern!r} ({error}). Correct it."
                ) from error

    def find(self, text: str) -> str | None:
        """The final answer in the form it is compared in.

        Args:
            text: an answer.

        Returns:
            It; None when there is none.
        """
        if self._pattern is not None:
            found = list(self._pattern.finditer(text))
            group = 1 if self._pattern.groups else 0
            return canonical(found[-1].group(group) or "") if found else None
        marked = _MARKED.findall(text) or _NUMBER.findall(text)
        return canonical(marked[-1]) if marked else None

    def known(self, text: str) -> str:
        """The right answer in the form it is compared in.

        Args:
            text: as the data has it: a worked solution, or the bare answer.

        Returns:
            The final answer inside it; the whole text when nothing is found in it.
        """
        found = self.find(text)
        return canonical(text) if found is None else found


def canonical(text: str) -> str:
    """A form in which equal answers are equal: no spaces around, numbers without ``$``, ``,``, ``%`` and idle zeros.

    Args:
        text: an answer.
    """
    text = text.strip()
    bare = text.rstrip(".").replace(",", "").replace("$", "").removesuffix("%").strip()
    found = _PLAIN.fullmatch(bare)
    if found is None:
        return text
    sign, whole, part = found.groups()
    number = (whole.lstrip("0") or "0") + f".{part or ''}".rstrip("0").rstrip(".")
    return number if number == "0" or sign != "-" else f"-{number}"
