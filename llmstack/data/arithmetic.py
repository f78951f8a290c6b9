"""Sums to learn and to be tested on, made on the spot: a task whose answers can be checked without a model."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from llmstack.data.records import Record, ResponseRecord

if TYPE_CHECKING:
    from llmstack.config.data import ArithmeticConfig

_SHARES = {"train": 40, "policy": 45, "eval": 15}
"""Per cent of the pairs of numbers in each split."""


def split_of(a: int, b: int) -> str:
    """The split of a sum, the same on every machine; ``a+b`` and ``b+a`` are in one.

    Args:
        a: one number.
        b: the other.
    """
    low, high = sorted((a, b))
    place = int.from_bytes(hashlib.sha256(f"{low}+{high}".encode()).digest()[:8], "big") % 100
    for split, share in _SHARES.items():
        if place < share:
            return split
        place -= share
    raise AssertionError("the shares make up 100")


class Arithmetic:
    """All sums of two numbers of up to some digits, dealt into splits that share no pair of numbers.

    Args:
        config: split, digits and how many.
        seed: of the order.
    """

    def __init__(self, config: ArithmeticConfig, *, seed: int) -> None:
        self._config, self._seed = config, seed

    def records(self) -> list[Record]:
        """One ``ResponseRecord`` a sum: ``12+7=`` and ``19``.

        Returns:
            The records of the split in seeded order.
        """
        numbers = range(10**self._config.digits)
        pairs = [(a, b) for a in numbers for b in numbers if split_of(a, b) == self._config.split]
        order = np.random.default_rng(self._seed).permutation(len(pairs))[: self._config.limit]
        return [
            ResponseRecord(f"{a}+{b}=", str(a + b), where=f"arithmetic:{a}+{b}")
            for a, b in (pairs[place] for place in order)
        ]

    def fingerprint(self) -> str:
        """The sums follow from the options alone; raise the number when the splits or the texts change."""
        return "arithmetic 1"
