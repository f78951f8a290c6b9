"""Signature -> summary samples, split so that no name, and no wording, is on both sides of a split."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from llmstack.data.stdlib.reader import Documented, read_stdlib

# A few signatures and first paragraphs are pages long; they would set the row and bucket sizes for all others.
MAX_SIGNATURE_CHARS = 160
MAX_PARAGRAPH_CHARS = 400

SPLITS = ("train", "policy", "eval")
_SPLIT_PERCENT = (70, 85, 100)


@dataclass(frozen=True)
class Summary:
    """A function's signature and what its authors wrote first about it.

    Attributes:
        name: the function's name.
        signature: its first line as source; of a method with the line of its class above.
        text: first paragraph of its docstring, line breaks kept.
        rest: what follows in the docstring.
        where: ``file:line``.
    """

    name: str
    signature: str
    text: str
    rest: str
    where: str


def split_of(name: str) -> str:
    """The split a name belongs to: about 70 % train, 15 % policy, 15 % eval.

    It depends on the bare name alone, so overrides, re-exports and pure-Python twins of a function (``close`` of every
    file class, ``io`` and ``_pyio``) are together. Special methods (``__init__``) all train: they hardly differ.

    Args:
        name: a function, class, module or topic.

    Returns:
        ``train``, ``policy`` or ``eval``.
    """
    if name.startswith("__") and name.endswith("__"):
        return "train"
    digest = hashlib.sha256(name.strip("_").replace("_", "").lower().encode()).digest()
    place = int.from_bytes(digest[:4], "big") % 100
    return next(split for split, below in zip(SPLITS, _SPLIT_PERCENT, strict=True) if place < below)


@functools.lru_cache(maxsize=1)
def read_summaries() -> dict[str, tuple[Summary, ...]]:
    """Every function's summary, by split.

    The same (signature, text) is kept once. A text that occurs in a split is left out of those behind it (train,
    policy, eval), whatever the function is called.

    Returns:
        Split -> summaries, in the order of the files.
    """
    by_split: dict[str, list[Summary]] = {split: [] for split in SPLITS}
    for summary in _summaries(read_stdlib()):
        by_split[split_of(summary.name)].append(summary)
    seen: set[str] = set()
    kept: dict[str, tuple[Summary, ...]] = {}
    for split in SPLITS:
        unique = {(item.signature, item.text): item for item in reversed(by_split[split])}
        fresh = [item for item in reversed(unique.values()) if _wording(item.text) not in seen]
        seen.update(_wording(item.text) for item in fresh)
        kept[split] = tuple(fresh)
    return kept


def _wording(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")


def _summaries(documented: tuple[Documented, ...]) -> Iterator[Summary]:
    for item in documented:
        if item.kind != "function" or len(item.signature) > MAX_SIGNATURE_CHARS:
            continue
        paragraph, _, rest = item.text.partition("\n\n")
        text = "\n".join(line.rstrip() for line in paragraph.strip().split("\n"))
        is_prose = any(character.isalpha() for character in text) and not text.startswith(">>>")
        if is_prose and len(text) <= MAX_PARAGRAPH_CHARS:
            yield Summary(item.name, item.signature, text, rest.strip(), item.where)
