from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.records import PreferenceRecord, PromptRecord, ResponseRecord, TextRecord
from llmstack.data.row_tables import Origin
from llmstack.data.row_view import segments_of
from llmstack.data.rows import prompt_rows
from llmstack.errors import UserError
from tests.helpers import rows as make
from tests.unit.data.letters import ASSISTANT, END, NEWLINE, START, STOP, USER, ids


def test_a_cut_document(letters):
    rows = make.text([TextRecord("abcdefg", where="x:1")], letters, 5)
    by_start = {segments_of(rows, row)[0].origin.skipped: segments_of(rows, row) for row in range(2)}
    (first,), (second,) = by_start[0], by_start[5]
    assert first.tokens.tolist() == ids("abcde")
    assert first.marked.tolist() == [False, True, True, True, True], "nothing predicts the first token"
    assert (first.beyond, first.width, first.origin) == (ids("f")[0], 5, Origin("x:1", 0))
    assert second.tokens.tolist() == [*ids("fg"), END]
    assert second.marked.tolist() == [False, True, True], "f was marked where it is predicted"
    assert (second.beyond, second.places.tolist(), second.positions.tolist()) == (None, [0, 1, 2], [0, 1, 2])


def test_packed_conversations(letters):
    records = [ResponseRecord(prompt="a", response="b", where="x:1"), ResponseRecord(prompt="c", response="d")]
    rows = make.chat(records, letters, 20, 0.0)
    first, second = segments_of(rows, 0)
    # <start> U a <stop> newline <start> A b <stop> newline
    whole = [START, USER, *ids("a"), STOP, NEWLINE, START, ASSISTANT, *ids("b"), STOP, NEWLINE]
    assert first.tokens.tolist() == whole
    assert first.tokens[first.marked].tolist() == [*ids("b"), STOP]
    assert first.labels is not None and first.labels[first.trained].tolist() == [*ids("b"), STOP]
    assert np.flatnonzero(first.trained).tolist() == [6, 7]
    assert (first.name, second.name, second.number) == ("segment 1", "segment 2", 2)
    assert second.places.tolist() == list(range(10, 20)) and second.positions.tolist() == list(range(10))
    assert first.beyond is None


def test_a_pair(letters):
    rows = make.pairs([PreferenceRecord("q", "ab", "c", where="x:7")], letters, 12, buckets=(11, 12))
    chosen, rejected = segments_of(rows, 0)
    assert (chosen.name, rejected.name) == ("chosen", "rejected")
    assert chosen.tokens[chosen.marked].tolist() == [*ids("ab"), STOP]
    assert rejected.tokens[rejected.marked].tolist() == [*ids("c"), STOP]
    assert [np.flatnonzero(side.trained).tolist() for side in (chosen, rejected)] == [[9], [8]]
    assert (chosen.width, chosen.origin.where, chosen.labels) == (11, "x:7", None)


def test_a_prompt_stands_at_the_right(letters):
    rows = prompt_rows([PromptRecord("ab", where="x:2")], letters, [8, 16])
    (prompt,) = segments_of(rows, 0)
    assert prompt.tokens.tolist() == [START, USER, *ids("ab"), STOP, NEWLINE, START, ASSISTANT]
    assert prompt.places.tolist() == list(range(8)) and prompt.width == 8
    longer = prompt_rows([PromptRecord("abc", where="x:2")], letters, [8, 16])
    (prompt,) = segments_of(longer, 0)
    assert (prompt.places.tolist(), prompt.width) == (list(range(7, 16)), 16)
    assert not prompt.marked.any() and not prompt.trained.any()


def test_rows_of_an_own_kind_are_refused():
    with pytest.raises(UserError, match="got Mine, which cannot be shown"):
        segments_of(type("Mine", (), {})(), 0)
