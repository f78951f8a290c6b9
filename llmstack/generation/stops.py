"""Texts that end an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmstack.errors import UserError


class StopTexts:
    """Finds where an answer has to end.

    Args:
        texts: an answer ends before the first of them.
        decode: text of token ids.

    Raises:
        UserError: a text is empty.
    """

    def __init__(self, texts: Sequence[str], decode: Callable[[Sequence[int]], str]) -> None:
        if not all(texts):
            raise UserError("stop: expected a text, got an empty one. Name what an answer should end before.")
        self.texts = tuple(texts)
        self._decode = decode

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.texts)

    def cut(self, text: str) -> str:
        """What comes before the first stop text.

        Args:
            text: an answer.

        Returns:
            The text before it; all of it when there is none.
        """
        return text[: min((at for at in (text.find(stop) for stop in self.texts) if at >= 0), default=len(text))]

    def end_of(self, ids: Sequence[int], known: int) -> int | None:
        """After how many tokens a stop text is complete.

        Args:
            ids: the answer so far.
            known: that many first tokens do not hold one.

        Returns:
            The number of tokens, that which completes it included; None when there is no stop text yet.
        """
        if not self._has_stop(ids):
            return None
        return next(count for count in range(known + 1, len(ids) + 1) if self._has_stop(ids[:count]))

    def _has_stop(self, ids: Sequence[int]) -> bool:
        text = self._decode(ids)
        return any(stop in text for stop in self.texts)
