"""Cohen's kappa (Cohen 1960) from the table of counts, in numpy float64."""

from __future__ import annotations

import numpy as np


def cohen_kappa(first, second):
    """1 minus observed over expected disagreement; nan where neither can disagree."""
    names = sorted({*first, *second})
    table = np.zeros((len(names), len(names)))
    for a, b in zip(first, second, strict=True):
        table[names.index(a), names.index(b)] += 1
    table /= table.sum()
    different = 1.0 - np.eye(len(names))
    expected = np.outer(table.sum(1), table.sum(0))
    with np.errstate(invalid="ignore"):
        return 1.0 - np.float64((different * table).sum()) / (different * expected).sum()
