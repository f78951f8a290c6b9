from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmstack.data.bucket_rows import PromptRows
from llmstack.data.row_tables import EncodeReport, Rows

REPORT = EncodeReport(records=1, kept=1)


def prompts(lengths: list[int], buckets: tuple[int, ...]) -> PromptRows:
    tokens = np.zeros((len(lengths), buckets[-1]), np.int32)
    for row, length in enumerate(lengths):
        tokens[row, -length:] = row + 1
    texts = tuple(map(str, lengths))
    return PromptRows(tokens, np.asarray(lengths, np.int32), REPORT, buckets, texts, (None,) * len(lengths))


def groups(table: Rows, batch_rows: int) -> list[list[int]]:
    return [group.tolist() for group in table.groups(batch_rows)]


def test_batch_of_prompts_has_the_smallest_bucket_that_holds_them() -> None:
    table = prompts([1, 2, 3], (2, 4))
    assert table.take(np.array([0, 1]))["tokens"].tolist() == [[0, 1], [2, 2]]
    assert table.take(np.array([0, 2]))["tokens"].tolist() == [[0, 0, 0, 1], [0, 3, 3, 3]]


def test_joined_prompts_keep_their_texts() -> None:
    joined = PromptRows.join([prompts([1, 2], (2, 4)), prompts([3], (2, 4))])
    assert (joined.prompts, joined.num_tokens) == (("1", "2", "3"), 6)
    assert joined.take(np.array([2]))["tokens"].tolist() == [[0, 1, 1, 1]]
    assert joined.take(np.array([2]))["index"].tolist() == [2]


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
