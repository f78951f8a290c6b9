from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmstack.data.clean.clusters import DropListed, UnionFind, keep_first, places_of
from tests.unit.data.clean.corpus import document


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20))
def test_sets_are_the_connected_parts_and_the_smallest_stands_for_them(pairs):
    sets = UnionFind(12)
    parts = [{number} for number in range(12)]
    for one, other in pairs:
        sets.union(one, other)
        joined = parts[one] | parts[other]
        for number in joined:
            parts[number] = joined
    assert sets.roots().tolist() == [min(part) for part in parts]


def test_the_first_of_each_cluster_is_kept():
    numbers = np.array([2, 3, 5, 7, 11, 13])
    decision = keep_first(numbers, np.array([0, 1, 0, 1, 4, 0]), "copy", rows=3)
    assert [decision.step.apply(document("x", number)).reason for number in numbers] == [
        "",
        "",
        *["copy"] * 2,
        "",
        "copy",
    ]
    assert decision.step.details() == {"clusters": 2, "documents_in_clusters": 5, "largest_cluster": 3, "rows": 3}
    assert decision.clusters == [[2, 5, 13], [3, 7]]
    assert places_of(decision.clusters, {number: f"f:{number}" for number in numbers.tolist()})[1] == ["f:3", "f:7"]


def test_no_documents_make_no_clusters():
    decision = keep_first(np.zeros(0, np.int64), np.zeros(0, np.int64), "copy")
    assert decision.clusters == []
    assert decision.step.details()["largest_cluster"] == 0


def test_a_number_that_is_not_listed_is_kept():
    step = DropListed(np.array([3, 5]), "why", {})
    assert [step.apply(document("x", number)).text for number in (2, 3, 4, 5, 6)] == ["x", None, "x", None, "x"]
