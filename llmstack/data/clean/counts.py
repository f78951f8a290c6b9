"""How often numbers occur in a stream that is too long to keep."""

from __future__ import annotations

import numpy as np

_PENDING = 1 << 22
"""Numbers that are kept unsorted at most: 32 MB."""


class HashCounts:
    """Counts of 64-bit numbers; 16 bytes of memory for each different one."""

    def __init__(self) -> None:
        self._values = np.zeros(0, np.uint64)
        self._counts = np.zeros(0, np.int64)
        self._pending: list[np.ndarray] = []
        self._num_pending = 0

    def add(self, values: np.ndarray) -> None:
        """Count some numbers.

        Args:
            values: uint64 (N,).
        """
        self._pending.append(values)
        self._num_pending += len(values)
        if self._num_pending > max(_PENDING, len(self._values) // 2):
            self._settle()

    def above(self, limit: int) -> np.ndarray:
        """The numbers that occurred more often than a limit.

        Args:
            limit: 0 gives all.

        Returns:
            uint64 (K,), ascending.
        """
        self._settle()
        return self._values[self._counts > limit]

    def _settle(self) -> None:
        values = np.concatenate([self._values, *self._pending])
        counts = np.concatenate([self._counts, np.ones(self._num_pending, np.int64)])
        self._values, places = np.unique(values, return_inverse=True)
        self._counts = np.bincount(places, counts, len(self._values)).astype(np.int64)
        self._pending, self._num_pending = [], 0
