"""How likely one of k answers is right."""

from __future__ import annotations

from math import comb


def pass_at_k(num_samples: int, num_right: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): the unbiased estimate from n samples of which c are right (Chen et al. 2021, eq. 1).

    Args:
        num_samples: n.
        num_right: c, from 0 to n.
        k: from 1 to n.

    Returns:
        The probability that k of the samples, drawn without putting back, hold a right one.
    """
    return 1.0 - comb(num_samples - num_right, k) / comb(num_samples, k)


def reported_ks(num_samples: int) -> list[int]:
    """The k that are worth reporting: powers of two, and the number of samples itself.

    Args:
        num_samples: n.
    """
    powers = [1 << i for i in range(num_samples.bit_length()) if 1 << i <= num_samples]
    return sorted({*powers, num_samples})
