"""Where sentences end, by punctuation alone."""

from __future__ import annotations

import re

# begins where a run of marks does: else a long run that ends no sentence would cost its square
_END = re.compile(r"""(?<![.!?])[.!?]+["'”’»)\]]*(?=\s|$)|[。！？]+[」』”]*""")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """The sentences of a text: up to a full stop, exclamation or question mark before white space.

    Abbreviations end sentences too, which does no harm where sentences are counted or compared.

    Args:
        text: any.

    Returns:
        Start and end of each in the text, white space around them left out; a rest without a mark at its end is one.
    """
    found, start = [], 0
    for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
        piece = text[start:end]
        if piece.strip():
            found.append((end - len(piece.lstrip()), start + len(piece.rstrip())))
        start = end
    return found


def count_sentences(text: str) -> int:
    """How many sentences end with a mark.

    Args:
        text: any.
    """
    return sum(1 for _ in _END.finditer(text))
