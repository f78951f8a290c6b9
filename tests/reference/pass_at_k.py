"""The probability that k of n samples hold a right one (Chen et al. 2021, equation 1), by going through all subsets."""

from __future__ import annotations

import itertools


def pass_at_k(right, k):
    """Share of the k-subsets of ``right`` (one bool a sample) with at least one true."""
    subsets = list(itertools.combinations(right, k))
    return sum(any(subset) for subset in subsets) / len(subsets)
