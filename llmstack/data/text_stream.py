"""Text of a growing list of token ids, in pieces that never break a character."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_BROKEN = "\ufffd"


class TextStream:
    """Hands out what is new in an answer's text.

    A character of several bytes may take several tokens; until its last one the decoder shows U+FFFD at the end, which
    is held back.

    Args:
        decode: text of token ids, such that more ids change no character but the ones held back.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._shown = ""

    def add(self, ids: Sequence[int]) -> str:
        """Take more tokens.

        Args:
            ids: the next ones.

        Returns:
            Whole characters that were not handed out before; may be empty.
        """
        self._ids += ids
        return self._new(self._decode(self._ids).rstrip(_BROKEN))

    def end(self) -> str:
        """What is left when no more tokens come: a character that was never completed shows as U+FFFD.

        Returns:
            The rest; mostly empty.
        """
        return self._new(self._decode(self._ids))

    @property
    def text(self) -> str:
        """Everything handed out so far."""
        return self._shown

    def _new(self, text: str) -> str:
        new = text[len(self._shown) :]
        self._shown += new
        return new
