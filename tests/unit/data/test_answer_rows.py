from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.answer_rows import LabelledRows, PreferenceRows, Spans, next_other
from llmstack.data.row_tables import EncodeReport
from llmstack.data.token_space import TokenSpace
from tests.helpers.rows import documents_of

REPORT = EncodeReport(records=1, kept=1)


def pairs(lengths: list[tuple[int, int]], buckets: tuple[int, ...]) -> PreferenceRows:
    """Pairs of answers of one token whose margin is their number.

    The ids of answer k, counted through all pairs from 1, are 100 k + place.
    """
    documents = documents_of([length for pair in lengths for length in pair])
    length = np.asarray(lengths, np.int32)
    return PreferenceRows(
        TokenSpace([documents]),
        Spans(documents.bounds[:-1].reshape(-1, 2), length, np.ones_like(length)),
        np.arange(len(lengths), dtype=np.float32),
        buckets=buckets,
        pad_id=9,
        report=REPORT,
    )


def answers(rows: list[tuple[list[int], list[int]]], buckets: tuple[int, ...]) -> LabelledRows:
    """Single answers by the ids of prompt and answer; the first, third ... are good."""
    ids = [prompt + answer for prompt, answer in rows]
    documents = documents_of([len(row) for row in ids])
    documents.tokens = np.concatenate(ids)
    return LabelledRows(
        TokenSpace([documents]),
        Spans(
            documents.bounds[:-1].reshape(-1, 1),
            np.array([[len(row)] for row in ids], np.int32),
            np.array([[len(answer)] for _, answer in rows], np.int32),
        ),
        (np.arange(len(rows)) % 2 == 0).astype(np.float32),
        buckets=buckets,
        pad_id=9,
        report=REPORT,
    )


def test_pairs_come_chosen_first() -> None:
    table = pairs([(1, 2), (2, 1)], (2, 4))
    batch = table.take(np.array([1, 0]))
    assert {name: array.tolist() for name, array in batch.items()} == {
        "tokens": [[300, 301], [100, 9], [400, 9], [200, 201]],
        "positions": [[0, 1], [0, 0], [0, 0], [0, 1]],
        "segments": [[1, 1], [1, 0], [1, 0], [1, 1]],
        "last": [1, 0, 0, 1],
        "answer": [1, 1, 1, 1],
        "margin": [1.0, 0.0],
    }
    table.blank(batch, np.array([False, True]))
    assert batch["segments"].tolist() == [[1, 1], [0, 0], [1, 0], [0, 0]]
    assert (batch["last"].tolist(), batch["answer"].tolist()) == ([1, 0, 0, 0], [1, 0, 1, 0])
    assert batch["margin"].tolist() == [1.0, 0.0]


def test_batch_of_pairs_has_the_smallest_bucket_that_holds_both_answers() -> None:
    table = pairs([(1, 2), (1, 3), (2, 2)], (2, 4))
    assert table.take(np.array([0, 2]))["tokens"].shape == (4, 2)
    assert table.take(np.array([0, 1]))["tokens"].shape == (4, 4)
    assert [group.tolist() for group in table.groups(1)] == [[0, 2], [1]]
    assert (table.widths.tolist(), table.buckets) == ([2, 4, 2], (2, 4))


def test_joined_pairs_are_the_pairs_of_the_parts() -> None:
    first, second = pairs([(1, 2)], (2, 4)), pairs([(2, 1), (3, 1)], (2, 4))
    joined = PreferenceRows.join([first, second])
    assert (len(joined), joined.num_tokens, joined.row_answers.tolist()) == (3, 10, [2, 2, 2])
    batch = joined.take(np.array([1, 0]))
    assert batch["tokens"].tolist() == [[100, 101], [100, 9], [200, 9], [200, 201]]


def test_what_is_known_of_the_answers_of_some_samples() -> None:
    table = pairs([(3, 2), (2, 4)], (4,))
    assert table.good(np.array([1, 0])).tolist() == [1.0, 1.0, 0.0, 0.0]
    assert [mask.tolist() for mask in table.answer_masks(1)] == [[0, 1], [0, 0, 0, 1]]
    single = answers([([1], [2, 3]), ([1], [4])], (4,))
    assert single.good(np.array([1, 0])).tolist() == [0.0, 1.0]
    assert single.answer_tokens(np.array([1, 0])).tolist() == [1, 2]
    assert single.take(np.array([1]))["good"].tolist() == [0.0]


def test_a_prompt_is_matched_with_the_answer_to_the_next_other_prompt() -> None:
    table = answers([([1, 2], [5]), ([1, 2], [6]), ([3], [7, 8]), ([4], [9])], (4,))
    assert table.partners.tolist() == [2, 2, 3, 0]
    batch = table.mismatched(np.array([0, 3]))
    assert batch["tokens"].tolist() == [[1, 2, 7, 8], [4, 5, 9, 9]]
    assert (batch["last"].tolist(), batch["answer"].tolist()) == ([3, 1], [2, 1])


def test_a_mismatched_answer_is_whole_and_the_prompt_gives_way() -> None:
    table = answers([([1, 2, 3], [5]), ([4], [6, 7, 8])], (4,))
    assert table.mismatched(np.array([0]))["tokens"].tolist() == [[3, 6, 7, 8]]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [([0, 1, 2], [1, 2, 0]), ([0, 0, 1, 0], [2, 2, 3, 2]), ([5, 5, 5], [1, 2, 0]), ([7], [0])],
)
def test_next_other(keys: list[int], expected: list[int]) -> None:
    assert next_other(np.array(keys)).tolist() == expected
