from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmstack.data.row_tables import EncodeReport, PreferenceRows, PromptRows, Rows

REPORT = EncodeReport(records=1, kept=1)


def prompts(lengths: list[int], buckets: tuple[int, ...]) -> PromptRows:
    tokens = np.zeros((len(lengths), buckets[-1]), np.int32)
    for row, length in enumerate(lengths):
        tokens[row, -length:] = row + 1
    return PromptRows(
        {"tokens": tokens, "lengths": np.asarray(lengths, np.int32)},
        sum(lengths),
        REPORT,
        buckets=buckets,
        prompts=tuple(map(str, lengths)),
        answers=(None,) * len(lengths),
    )


def groups(table: Rows, batch_rows: int) -> list[list[int]]:
    return [group.tolist() for group in table.groups(batch_rows)]


def test_rows_are_one_group() -> None:
    table = Rows({"tokens": np.arange(6).reshape(3, 2)}, 6, REPORT)
    assert len(table) == 3
    assert groups(table, 2) == [[0, 1, 2]]
    assert table.take(np.array([2, 0]))["tokens"].tolist() == [[4, 5], [0, 1]]


def test_blank_rows_have_no_segment_and_no_loss() -> None:
    batch = {name: np.ones((2, 2)) for name in ("tokens", "segments", "positions", "loss_mask")}
    Rows({}, 0, REPORT).blank(batch, np.array([False, True]))
    for name in ("segments", "positions", "loss_mask"):
        assert batch[name].tolist() == [[1, 1], [0, 0]]


def test_pairs_come_chosen_first() -> None:
    pairs = np.arange(8).reshape(2, 2, 2)
    table = PreferenceRows(
        {"tokens": pairs, "positions": pairs, "segments": pairs, "last": pairs[..., 0], "margin": np.array([0.5, 1.0])},
        8,
        REPORT,
    )
    batch = table.take(np.array([1, 0]))
    assert batch["tokens"].tolist() == [[4, 5], [0, 1], [6, 7], [2, 3]]
    assert batch["last"].tolist() == [4, 0, 6, 2]
    assert batch["margin"].tolist() == [1.0, 0.5]
    table.blank(batch, np.array([False, True]))
    assert batch["segments"].tolist() == [[4, 5], [0, 0], [6, 7], [0, 0]]
    assert batch["last"].tolist() == [4, 0, 6, 0]
    assert batch["margin"].tolist() == [1.0, 0.0]


def test_batch_of_prompts_has_the_smallest_bucket_that_holds_them() -> None:
    table = prompts([1, 2, 3], (2, 4))
    assert table.take(np.array([0, 1]))["tokens"].tolist() == [[0, 1], [2, 2]]
    assert table.take(np.array([0, 2]))["tokens"].tolist() == [[0, 0, 0, 1], [0, 3, 3, 3]]


def test_prompts_are_grouped_by_bucket() -> None:
    assert groups(prompts([1, 4, 2, 3], (2, 4)), 2) == [[0, 2], [1, 3]]


def test_small_bucket_joins_a_neighbour() -> None:
    assert groups(prompts([1, 4, 3], (2, 4)), 2) == [[0, 1, 2]]
    assert groups(prompts([1, 2, 4], (2, 4)), 2) == [[0, 1, 2]]
    assert groups(prompts([1, 4], (2, 4)), 8) == [[0, 1]]
    assert groups(prompts([1, 1, 4, 5, 6, 7], (2, 5, 8)), 2) == [[0, 1], [2, 3], [4, 5]]


def test_blank_prompts_stay_prompts() -> None:
    table = prompts([1, 2], (2,))
    batch = table.take(np.array([0, 0]))
    table.blank(batch, np.array([False, True]))
    assert batch["lengths"].tolist() == [1, 1]


@given(st.lists(st.integers(1, 16), min_size=1, max_size=30), st.integers(1, 6))
def test_groups_hold_every_prompt_once(lengths: list[int], batch_rows: int) -> None:
    found = groups(prompts(lengths, (4, 8, 12, 16)), batch_rows)
    assert sorted(index for group in found for index in group) == list(range(len(lengths)))
    assert len(found) == 1 or min(map(len, found)) >= batch_rows


def test_report_as_dict() -> None:
    assert EncodeReport(2, 1, 1, {"empty": 1}, {"empty": "x:1"}, 0.5).as_dict() == {
        "records": 2,
        "kept": 1,
        "cut": 1,
        "dropped": {"empty": 1},
        "examples": {"empty": "x:1"},
        "padding_ratio": 0.5,
    }
