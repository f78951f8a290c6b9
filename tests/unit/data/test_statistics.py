from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.data.blend import BlendPlan, Part, scheduled_weights
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.records import MessagesRecord, PreferenceRecord, ResponseRecord, TextRecord
from llmstack.data.row_tables import EncodeReport
from llmstack.data.statistics import (
    LeftOut,
    Lengths,
    blend_statistics,
    lengths_of,
    moments_of,
    row_statistics,
)
from tests.helpers import rows as make


def test_lengths_by_hand():
    found = lengths_of(np.array([7, 1, 2, 9, 3, 3, 12, 2, 1, 100]))
    # in order: 1 1 2 2 3 3 7 9 12 100; five of ten are at most 3, nine at most 12
    assert found == Lengths(
        10, 1, 3, 12, 100, 100,
        ((1, 1, 2), (2, 2, 2), (3, 3, 2), (4, 5, 0), (6, 7, 1), (8, 11, 1), (12, 15, 1), (16, 23, 0), (24, 31, 0),
         (32, 47, 0), (48, 63, 0), (64, 95, 0), (96, 127, 1)),
    )  # fmt: skip


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=60))
def test_every_length_is_in_its_stretch(lengths):
    found = lengths_of(np.array(lengths))
    assert sum(count for *_, count in found.histogram) == found.count == len(lengths)
    assert found.histogram[0][0] <= min(lengths) <= found.histogram[0][1]
    assert found.histogram[-1][0] <= max(lengths) <= found.histogram[-1][1]
    for low, high, count in found.histogram:
        assert count == sum(low <= length <= high for length in lengths)
    for share, quantile in ((0.5, found.median), (0.9, found.p90), (0.99, found.p99)):
        within = [length for length in lengths if length <= quantile]
        assert quantile in lengths and len(within) >= share * len(lengths) - 1e-9
        assert sum(length < quantile for length in lengths) < share * len(lengths)


def test_no_lengths():
    assert lengths_of(np.zeros(0, np.int64)) == Lengths(0, 0, 0, 0, 0, 0, ())


def test_text(letters):
    records = [TextRecord("abcdefghij", where="x:1"), TextRecord("", where="x:2"), TextRecord("ab", where="x:3")]
    found = row_statistics(make.text(records, letters, 8))
    # 11 tokens with the end are cut into 8 and 3, and 3 more: two rows of 8 places with 14 tokens
    assert (found.records, found.kept, found.tokens, found.rows, found.cut) == (3, 2, 14, 2, 1)
    assert found.left_out == {"empty": LeftOut(1, "x:2")}
    assert (found.filled_ratio, found.cut_ratio) == (14 / 16, 1 / 2)
    # all but the first of each document are labels
    assert found.trained_ratio == 12 / 14
    assert (found.lengths.min, found.lengths.max, found.lengths.count) == (3, 11, 2), "as they were before the cut"
    assert found.pairs is None


def test_chat(letters):
    records = [ResponseRecord(prompt="a", response="bcd", where="x:1"), MessagesRecord((), where="x:2")]
    rows = make.chat(records, letters, 16, 0.5)
    found = row_statistics(rows)
    assert found.left_out == {"no_assistant_token": LeftOut(1, "x:2")}
    assert found.trained_ratio == 4 / found.tokens, "b, c, d and the end of the turn"


def test_pairs(letters):
    answers = [("abc", "a"), ("a", "abcde"), ("ab", "cd"), ("abcdef", "a"), ("same", "same")]
    records = [PreferenceRecord("q", good, bad, where=f"x:{n}") for n, (good, bad) in enumerate(answers)]
    found = row_statistics(make.pairs(records, letters, 16))
    assert (found.records, found.kept, found.rows, found.trained_ratio) == (5, 4, 4, None)
    assert found.pairs is not None
    # each answer with the token that ends it: 4 2 3 7 and 2 6 3 2
    assert (found.pairs.chosen.min, found.pairs.chosen.median, found.pairs.chosen.max) == (2, 3, 7)
    assert (found.pairs.rejected.min, found.pairs.rejected.median, found.pairs.rejected.max) == (2, 2, 6)
    assert (found.pairs.chosen_longer_ratio, found.pairs.equal_ratio) == (0.5, 0.25)
    assert found.lengths.count == 8


def test_prompts():
    lengths = np.array([2, 4, 4], np.int32)
    rows = PromptRows(np.zeros((3, 4), np.int32), lengths, EncodeReport(3, 3), (4,), ("a", "b", "c"), (None,) * 3)
    found = row_statistics(rows)
    assert (found.lengths.min, found.lengths.max, found.trained_ratio, found.pairs) == (2, 4, None, None)


def plan() -> BlendPlan:
    """Two parts; the first falls from 1 to 0 over 100 tokens, rows of 10 tokens each."""
    falling = scheduled_weights("linear", [0, 100], [1.0, 0.0])
    rising = scheduled_weights("linear", [0, 100], [0.0, 1.0])
    return BlendPlan([Part(falling, 10.0), Part(rising, 10.0)])


def test_the_plan_of_a_blend_by_hand():
    found = blend_statistics(plan(), ("a", "b"), (4, 2), (40, 20), 10)
    # rows are taken at 0, 10 .. 90 tokens: shares of a are 1, 0.9 .. 0.1, together 5.5 of 10 rows
    assert [moment.rows for moment in found.moments] == [0, 2, 5, 8, 10]
    assert [moment.tokens for moment in found.moments] == [0, 20, 50, 80, 100]
    assert [moment.shares["a"] for moment in found.moments] == pytest.approx([1.0, 0.8, 0.5, 0.2, 0.1])
    assert [sum(moment.shares.values()) for moment in found.moments] == pytest.approx([1.0] * 5)
    assert [moment.part_tokens["a"] for moment in found.moments] == [0, 19, 40, 52, 55]
    assert [moment.part_tokens["b"] for moment in found.moments] == [0, 1, 10, 28, 45]
    assert found.epochs == pytest.approx({"a": 5.5 / 4, "b": 4.5 / 2})


def test_moments_may_be_many():
    found = moments_of(plan(), ("a", "b"), (10.0, 10.0), 10, [n / 10 for n in range(11)])
    assert [moment.rows for moment in found] == list(range(11))
    assert [moment.shares["b"] for moment in found][:-1] == pytest.approx([n / 10 for n in range(10)])
