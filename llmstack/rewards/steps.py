"""The steps of an answer, and the tokens at which they end."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import regex

from llmstack.rewards import patterns

_BROKEN = "\ufffd"


@dataclass(frozen=True)
class StepBatch:
    """Answers cut into steps, to be scored step by step; item i of each list belongs together.

    Attributes:
        prompts: the prompts as text.
        steps: the steps of each answer as text, without what stands between them.
        answers: the data's reference answer of each prompt, None where it has none.
    """

    prompts: list[str]
    steps: list[list[str]]
    answers: list[str | None]

    def __len__(self) -> int:
        """Number of answers."""
        return len(self.steps)


def step_spans(text: str, split: str) -> list[tuple[int, int]]:
    """Where the steps of an answer are.

    Args:
        text: an answer.
        split: regular expression of what stands between two steps.

    Returns:
        First character and the one behind the last of each step, blanks around it left out; blank steps are none.

    Raises:
        TimeoutError: the search took too long.
    """
    cuts = [found.span() for found in regex.finditer(split, text, timeout=patterns.TIMEOUT_SECONDS)]
    starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]
    spans = []
    for start, end in zip(starts, ends, strict=True):
        piece = text[start:end]
        if piece.strip():
            spans.append((start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())))
    return spans


def token_at(ids: Sequence[int], decode: Callable[[Sequence[int]], str], end: int) -> int:
    """The token that completes the text up to a character.

    The text of the first tokens is the beginning of the whole text, but for a last character whose bytes are not all
    there yet; so the token is found by halving.

    Args:
        ids: the answer's tokens, at least one.
        decode: text of token ids, the same that gave the answer's text.
        end: number of characters that must be there.

    Returns:
        Index into ``ids``; the last one when the text never gets so long.
    """

    def visible(count: int) -> int:
        return len(decode(ids[:count]).rstrip(_BROKEN))

    return min(bisect.bisect_left(range(1, len(ids) + 1), end, key=visible), len(ids) - 1)
