from __future__ import annotations

from collections import Counter

import numpy as np

from llmstack.data.clean import counts
from llmstack.data.clean.counts import HashCounts


def test_counts_are_those_of_a_counter_however_often_they_are_settled(monkeypatch):
    monkeypatch.setattr(counts, "_PENDING", 64)
    rng = np.random.default_rng(0)
    found, wanted = HashCounts(), Counter()
    for _ in range(50):
        values = rng.integers(0, 60, rng.integers(0, 20)).astype(np.uint64) << np.uint64(58)
        found.add(values)
        wanted.update(values.tolist())
    for limit in (0, 5, 10, 10**6):
        assert found.above(limit).tolist() == sorted(value for value, count in wanted.items() if count > limit)


def test_nothing_was_counted():
    assert HashCounts().above(0).tolist() == []
