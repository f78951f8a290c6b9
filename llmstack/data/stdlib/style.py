"""Whether a docstring summary keeps PEP 257's style, told by rules.

PEP 257, "One-line Docstrings": a phrase ending in a full stop that prescribes the effect as a command ("Do this",
"Return that") and not as a description ("Returns the pathname ..."). 72 characters is PEP 8's width for docstrings.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from llmstack.data.stdlib.verbs import BASE_FORM, VERBS

if TYPE_CHECKING:
    from llmstack.rl.rewards_api import RewardBatch

MAX_SUMMARY_CHARS = 72
MIN_WORDS = 2

_WORD = re.compile(r"[A-Za-z]+(?:[-'][A-Za-z]+)*")


def is_pep257(text: str) -> bool:
    """Whether a summary breaks none of the rules.

    Args:
        text: a docstring's summary.

    Returns:
        True when ``violations`` finds nothing.
    """
    return not violations(text)


def violations(text: str) -> list[str]:
    """The rules a summary breaks.

    Args:
        text: a docstring's summary; white space around it does not count.

    Returns:
        Some of: ``empty``, ``several_lines``, ``too_long`` (over 72 characters), ``too_short`` (under two words),
        ``lower_case`` (no capital first letter), ``third_person`` ("Returns ..."), ``not_imperative`` (neither a
        known verb first nor a noun phrase's "of" after it), ``no_full_stop``.
    """
    text = text.strip()
    if not text:
        return ["empty"]
    found = []
    if "\n" in text:
        found.append("several_lines")
    if len(text) > MAX_SUMMARY_CHARS:
        found.append("too_long")
    words = text.split()
    if len(words) < MIN_WORDS:
        found.append("too_short")
    if not ("A" <= text[0] <= "Z"):
        found.append("lower_case")
    mood = _mood(words)
    if mood:
        found.append(mood)
    if not text.endswith(".") or text.endswith(".."):
        found.append("no_full_stop")
    return found


def leading_verb(words: list[str]) -> int | None:
    """Where the imperative verb of a sentence stands.

    Args:
        words: the sentence split at white space.

    Returns:
        0, or 1 behind an adverb ("Recursively delete ..."); None when the sentence does not open with a known verb.
    """
    first = _bare(words[0])
    if first in VERBS:
        # "copy of", "list of", "set of" open a noun phrase
        is_noun = len(words) > 1 and words[1].lower() == "of" and first != "dispose"
        return None if is_noun else 0
    if first.endswith("ly") and len(words) > 1 and _bare(words[1]) in VERBS:
        return 1
    return None


def _mood(words: list[str]) -> str:
    if leading_verb(words) is not None:
        return ""
    return "third_person" if _bare(words[0]) in BASE_FORM else "not_imperative"


def _bare(word: str) -> str:
    """The word in lower case without punctuation around it; empty when it is not one plain word."""
    match = _WORD.fullmatch(word.strip(",.:;"))
    return match.group().lower() if match else ""


def style_reward(batch: RewardBatch) -> list[float]:
    """Reward function ``pep257_style``: 1 for an answer in style, 0 for any other.

    Args:
        batch: the answers to score.

    Returns:
        One score an answer.
    """
    return [float(is_pep257(response)) for response in batch.responses]
