"""One way of writing the same text: Unicode form, control characters, white space, wrongly decoded text."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import ftfy

from llmstack.data.clean.step import Change, Document, Outcome, Step, keep

if TYPE_CHECKING:
    from llmstack.config.clean import NormaliseConfig

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# joiners (U+200C, U+200D) and direction marks carry meaning in some scripts and stay
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff\ufffe\uffff]")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_BLANK_LINES = re.compile("\n{3,}")


def repair_encoding(text: str) -> str:
    """Undo UTF-8 that was read in a one-byte encoding; text that makes sense as it is stays (ftfy's heuristic).

    Args:
        text: any.
    """
    return text if text.isascii() else ftfy.fix_encoding(text)


def remove_invisible(text: str) -> str:
    """Remove control characters, soft hyphens, byte-order marks and zero-width spaces; line ends become ``\\n``.

    Args:
        text: any.
    """
    return _INVISIBLE.sub("", _LINE_ENDS.sub("\n", text))


def tidy_whitespace(text: str) -> str:
    """Plain spaces, none at the end of a line, at most one blank line in a row, none at the beginning and the end.

    Args:
        text: with ``\\n`` as line ends.
    """
    text = "\n".join(line.rstrip(" \t") for line in _SPACES.sub(" ", text).split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip("\n")


class Normalise(Step):
    """Rewrites texts and drops none.

    Args:
        config: which of the rewritings are done.
        seed: not used.
    """

    def __init__(self, config: NormaliseConfig, *, seed: int) -> None:
        self._config = config

    def apply(self, document: Document) -> Outcome:
        """Rewrite a text.

        Args:
            document: the document.

        Returns:
            The text, and which rewritings changed it.
        """
        config, text = self._config, document.text
        changes: list[Change] = []
        if config.repair_encoding:
            text = _noted(text, repair_encoding(text), "wrong encoding undone", changes)
        if config.remove_control_characters:
            text = _noted(text, remove_invisible(text), "control characters", changes)
        if config.form is not None:
            text = _noted(text, unicodedata.normalize(config.form, text), f"Unicode form {config.form}", changes)
        if config.tidy_whitespace:
            text = _noted(text, tidy_whitespace(text), "white space", changes)
        return keep(text, *changes)


def _noted(before: str, after: str, what: str, changes: list[Change]) -> str:
    if after != before:
        changes.append(Change(what, 1, _around_first_difference(before, after)))
    return after


def _around_first_difference(before: str, after: str) -> str:
    pairs = enumerate(zip(before, after, strict=False))
    place = next((index for index, (old, new) in pairs if old != new), None)
    at = place if place is not None else min(len(before), len(after))
    return after[max(0, at - 30) :]
