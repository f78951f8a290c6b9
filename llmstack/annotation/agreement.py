"""How far two annotators agree, and how much of that is more than chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """Two annotators on the items both have labelled.

    Attributes:
        items: how many these are.
        raw: share of them with equal labels; None: there are none.
        kappa: Cohen's kappa, from -1 to 1; None: not defined.
        confusion: label of the first -> label of the second -> items.
    """

    items: int
    raw: float | None
    kappa: float | None
    confusion: dict[str, dict[str, int]]


def agreement(first: Sequence[str], second: Sequence[str]) -> Agreement:
    """Cohen's kappa and what it is made of (Cohen 1960, equation 1).

    ``kappa = (p_o - p_e) / (1 - p_e)`` with p_o the share of equal labels, and p_e = sum over labels k of
    ``(share of k in first) (share of k in second)``, the share that would be equal by chance. Where chance alone makes
    all labels equal (p_e = 1: both gave one and the same label throughout) it is 0/0 and says nothing: None, as
    without items.

    Args:
        first: labels of one annotator.
        second: those of the other for the same items.

    Returns:
        Agreement in numbers.
    """
    size = len(first)
    pairs = Counter(zip(first, second, strict=True))
    names = sorted({*first, *second})
    confusion = {name: {other: pairs[name, other] for other in names if pairs[name, other]} for name in names}
    confusion = {name: row for name, row in confusion.items() if row}
    if not size:
        return Agreement(0, None, None, {})
    equal = sum(pairs[name, name] for name in names)
    ones, others = Counter(first), Counter(second)
    by_chance = sum(ones[name] * others[name] for name in names)  # whole numbers, so that p_e = 1 is found exactly
    kappa = None if by_chance == size**2 else (equal * size - by_chance) / (size**2 - by_chance)
    return Agreement(size, equal / size, kappa, confusion)
