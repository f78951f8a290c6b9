from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.row_tables import EncodeReport, ranges
from tests.helpers.rows import numbered_rows


def test_ranges_by_hand() -> None:
    assert ranges(np.array([5, 0, 7]), np.array([2, 0, 3])).tolist() == [5, 6, 7, 8, 9]
    assert ranges(np.zeros(0, int), np.zeros(0, int)).tolist() == []


def test_report_as_dict() -> None:
    assert EncodeReport(2, 1, 1, {"empty": 1}, {"empty": "x:1"}, 0.5).as_dict() == {
        "records": 2,
        "kept": 1,
        "cut": 1,
        "dropped": {"empty": 1},
        "examples": {"empty": "x:1"},
        "padding_ratio": 0.5,
    }


def test_joined_report_adds_up_and_keeps_the_first_example() -> None:
    first = EncodeReport(3, 1, 1, {"empty": 2}, {"empty": "x:1"}, 0.5)
    second = EncodeReport(4, 2, 0, {"empty": 1, "equal": 1}, {"empty": "y:1", "equal": "y:2"}, 0.0)
    joined = EncodeReport.joined([first, second], 0.25)
    assert joined == EncodeReport(7, 3, 1, {"empty": 3, "equal": 1}, {"empty": "x:1", "equal": "y:2"}, 0.25)


def test_rows_know_their_number_and_tokens() -> None:
    rows = numbered_rows(3, 2)
    assert (len(rows), rows.num_tokens) == (3, 6)
    assert [group.tolist() for group in rows.groups(2)] == [[0, 1, 2]]


@pytest.mark.parametrize("indices", [[2, 0], [1]])
def test_batches_are_the_rows_asked_for(indices: list[int]) -> None:
    assert numbered_rows(3, 2).take(np.array(indices))["tokens"].tolist() == [[i, i] for i in indices]
