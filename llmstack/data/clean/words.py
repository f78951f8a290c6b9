"""Words of a text as comparisons see them, and hashes of their n-grams."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import xxhash

# scripts without spaces between words: each character counts as a word, as n-grams of characters do for them elsewhere
_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(f"[{_NO_SPACES}]|[^\\W{_NO_SPACES}]+")
_BASE = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that a change of one word always changes the sum."""


def normal_words(text: str) -> list[str]:
    """The words of a text without case, punctuation and differences of Unicode form.

    Args:
        text: any.

    Returns:
        Runs of letters, digits and underscores; single characters of scripts that put no spaces between words.
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


@lru_cache(maxsize=1 << 18)
def _hash(word: str) -> int:
    return xxhash.xxh3_64_intdigest(word.encode())


def word_hashes(words: Sequence[str]) -> np.ndarray:
    """One number a word, the same on every machine.

    Args:
        words: W of them.

    Returns:
        uint64 (W,).
    """
    return np.fromiter(map(_hash, words), np.uint64, len(words))


def ngram_hashes(hashes: np.ndarray, size: int) -> np.ndarray:
    """One number an n-gram: a polynomial in the words' numbers modulo 2**64, mixed (splitmix64's last steps).

    Args:
        hashes: uint64 (W,), the words.
        size: n, words of an n-gram.

    Returns:
        uint64 (W - n + 1,), or (0,) when there are fewer words than n.
    """
    count = len(hashes) - size + 1
    if count < 1:
        return np.zeros(0, np.uint64)
    total = np.zeros(count, np.uint64)
    for offset in range(size):
        total = total * _BASE + hashes[offset : offset + count]
    return mixed(total)


def mixed(values: np.ndarray) -> np.ndarray:
    """Spreads every bit of a number over all bits (the finalizer of splitmix64, Steele et al. 2014).

    Args:
        values: uint64, any shape.

    Returns:
        uint64 of that shape; different values stay different.
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
