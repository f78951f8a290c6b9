from __future__ import annotations

import pytest

from llmstack.annotation.items import Item, read_items
from llmstack.data.records import PreferenceRecord, PromptRecord, ResponseRecord, TextRecord
from llmstack.errors import DataError


def test_each_item_once_in_the_order_of_the_data():
    records = [PromptRecord("b", where="f:1"), TextRecord("a", where="f:2"), PromptRecord("b", where="f:3")]
    found = read_items(iter(records), "class")
    assert [(item.prompt, item.where) for item in found.items] == [("b", "f:1"), ("a", "f:2")]
    assert (found.duplicates, found.equal_answers) == (1, 0)


def test_which_answer_comes_first_does_not_make_another_item():
    pairs = [PreferenceRecord("p", "x", "y"), PreferenceRecord("p", "y", "x"), PreferenceRecord("p", "x", "x")]
    found = read_items(pairs, "preference")
    assert [item.answers for item in found.items] == [("x", "y")]
    assert (found.duplicates, found.equal_answers) == (1, 1)
    assert (found.items[0].answer("a"), found.items[0].answer("b")) == ("x", "y")


def test_an_id_is_that_of_the_texts():
    assert Item("p", ("x", "y")).id == Item("p", ("y", "x"), where="f:3").id
    assert len({Item("p").id, Item("q").id, Item("p", ("x", "y")).id, Item("p", ("x", "z")).id}) == 4
    assert Item("p").id == "d59fbd2a185778e5"  # queues on people's disks hold such ids


@pytest.mark.parametrize(
    ("records", "task", "message"),
    [
        ([], "class", "expected at least one"),
        ([ResponseRecord("p", "r", where="f:1")], "response", "f:1: expected PromptRecord .*or TextRecord"),
        ([PromptRecord("p", where="f:1")], "preference", "f:1: expected PreferenceRecord"),
        ([PromptRecord(" ", where="f:1")], "class", "f:1: expected a prompt with some text, got none"),
        ([PreferenceRecord("p", "", "y", where="f:1")], "preference", "f:1: expected an answer with some text"),
        ([PromptRecord("\ud800", where="f:1")], "class", "f:1: expected a prompt of whole characters"),
        ([PromptRecord(("turn",), where="f:1")], "class", "f:1: expected a prompt of plain text, got a conversation"),
    ],
)
def test_what_nobody_could_be_asked_about_is_refused(records, task, message):
    with pytest.raises(DataError, match=message):
        read_items(records, task)
