"""Rows for people: their text with the tokens that count marked, or a table of tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import numpy as np

from llmstack.data.row_view import Segment
from llmstack.data.tokenizer import Tokenizer

# what would move the cursor, change colours or turn the direction of writing round
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_GREEN, _PLAIN = "\x1b[1;32m", "\x1b[0m"


class Marker:
    """Marks stretches of text.

    Args:
        colours: by colours of a terminal; else by ``[[`` and ``]]``.
    """

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def __call__(self, text: str) -> str:
        """The text, marked; with colours each of its lines.

        Args:
            text: what to mark.
        """
        if not self._colours:
            return f"[[{text}]]"
        return "\n".join(f"{_GREEN}{line}{_PLAIN}" if line else "" for line in text.split("\n"))


def printable(text: str) -> str:
    """The text with control characters written out, so that data cannot steer a terminal.

    Args:
        text: any text.
    """
    return _CONTROL.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text
    )


def segment_text(segment: Segment, tokenizer: Tokenizer, mark: Marker) -> str:
    """The text of a segment.

    Args:
        segment: a stretch of a row.
        tokenizer: gives the text, control tokens written out.
        mark: marks tokens that count.

    Returns:
        The text; a trained token that lies in another row stands behind an ellipsis.
    """
    bounds = [0, *(np.flatnonzero(np.diff(segment.marked.astype(np.int8))) + 1).tolist(), len(segment.tokens)]
    texts = _pieces(segment.tokens.tolist(), bounds, tokenizer)
    parts = [
        mark(printable(text)) if segment.marked[start] else printable(text)
        for text, start in zip(texts, bounds, strict=False)
    ]
    if segment.beyond is not None:
        parts.append(f" … {mark(printable(tokenizer.decode([segment.beyond], skip_special=False)))}")
    return "".join(parts)


def _pieces(ids: Sequence[int], bounds: Sequence[int], tokenizer: Tokenizer) -> Iterator[str]:
    """The text between bounds: what decoding up to the second adds to decoding up to the first.

    Some tokenizers decode a token in another way at the beginning of a text than behind others.
    """
    before = ""
    for start, end in zip(bounds[:-1], bounds[1:], strict=True):
        upto = tokenizer.decode(ids[:end], skip_special=False)
        if upto.startswith(before):
            yield upto[len(before) :]
        else:  # the bound lies inside a character
            yield tokenizer.decode(ids[start:end], skip_special=False)
        before = upto


def token_table(segments: Sequence[Segment], tokenizer: Tokenizer) -> list[str]:
    """All tokens of a row, one a line; the places of padding are left out.

    Args:
        segments: those of a row.
        tokenizer: gives the texts.

    Returns:
        A line of names, then one a token.
    """

    def text(token: int) -> str:
        return printable(json.dumps(tokenizer.decode([token], skip_special=False), ensure_ascii=False))

    labelled = segments[0].labels is not None
    paired = segments[0].name == "chosen"
    names = ["place", "segment", "position", "id", "token"]
    names += ["label", "label token", "trained"] if labelled else ["answer", "score"] if paired else []
    table = [names]
    for segment in segments:
        for index, token in enumerate(segment.tokens.tolist()):
            row = [str(segment.places[index]), segment.name.removeprefix("segment "), str(segment.positions[index])]
            row += [str(token), text(token)]
            if segment.labels is not None:
                trained = bool(segment.trained[index])
                label = int(segment.labels[index])
                row += [str(label), text(label), "yes"] if trained else ["", "", ""]
            elif paired:
                row += ["yes" if segment.marked[index] else "", "read here" if segment.trained[index] else ""]
            table.append(row)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    texts = {4, 6} if labelled else {4}
    return [
        "  ".join(
            f"{cell:<{width}}" if column in texts else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
