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


def written_sum(a: int, b: int, *, forgotten_carries: float) -> int:
    """What somebody writes who forgets some carries, the same ones for a pair of numbers on every machine.

    Args:
        a: one number.
        b: the other.
        forgotten_carries: share of all carries that are forgotten; 0 gives the sum.
    """
    total, carry, place, name = 0, 0, 1, f"{a}+{b}"
    while a or b or carry:
        digit = a % 10 + b % 10 + carry
        total += digit % 10 * place
        carry = int(digit > 9 and _share(f"{name}@{place}") >= forgotten_carries)
        a, b, place = a // 10, b // 10, place * 10
    return total


def split_of(a: int, b: int) -> str:
    """The split of a sum, the same on every machine; ``a+b`` and ``b+a`` are in one.

    Args:
        a: one number.
        b: the other.
    """
    low, high = sorted((a, b))
    place = _number(f"{low}+{high}") % 100
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
        forgotten = self._config.forgotten_carries
        return [
            ResponseRecord(
                f"{a}+{b}=", str(written_sum(a, b, forgotten_carries=forgotten)), where=f"arithmetic:{a}+{b}"
            )
            for a, b in (pairs[place] for place in order)
        ]

    def fingerprint(self) -> str:
        """The sums follow from the options alone; raise the number when the splits or the texts change."""
        return "arithmetic 1"


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _share(text: str) -> float:
    return _number(text) / 2**64
