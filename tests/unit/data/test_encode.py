from __future__ import annotations

import pytest

from llmstack.data.documents import Losses
from llmstack.data.encode import ENCODERS, encode_chat, encode_labelled, encode_pairs, encode_text, prompt_and_answer
from llmstack.data.records import (
    LabelledRecord,
    Message,
    MessagesRecord,
    PreferenceRecord,
    PromptRecord,
    ResponseRecord,
    TextRecord,
)
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from tests.unit.data.letters import ASSISTANT, END, NEWLINE, START, STOP, USER, ids, letter_tokenizer


def test_text_by_hand(letters: Tokenizer) -> None:
    found = encode_text(
        [TextRecord("ab", where="x:1"), TextRecord("", where="x:2"), TextRecord("c", where="x:3")], letters
    )
    assert found.ids.tolist() == [*ids("ab"), END, *ids("c"), END]
    assert (found.lengths.tolist(), found.mask, found.wheres) == ([3, 2], None, ["x:1", "x:3"])
    assert found.losses == Losses(3, {"empty": 1}, {"empty": "x:2"})
    assert found.margins.tolist() == []


def test_text_begins_with_the_tokenizer_s_own_beginning() -> None:
    found = encode_text([TextRecord("ab"), TextRecord("c")], letter_tokenizer(bos=True))
    assert found.ids.tolist() == [START, *ids("ab"), END, START, *ids("c"), END]


def test_only_empty_texts_are_counted(letters: Tokenizer) -> None:
    found = encode_text([TextRecord(""), TextRecord("")], letters)
    assert (found.ids.tolist(), found.lengths.tolist(), found.losses.counts) == ([], [], {"empty": 2})


def test_chat_by_hand(letters: Tokenizer) -> None:
    system = MessagesRecord((Message("user", "a"), Message("assistant", "bc"), Message("user", "d")), where="x:1")
    found = encode_chat([system, ResponseRecord("e", "f", where="x:2")], letters)
    first = [START, USER, *ids("a"), STOP, NEWLINE, START, ASSISTANT, *ids("bc"), STOP, NEWLINE]
    first += [START, USER, *ids("d"), STOP, NEWLINE]
    second = [START, USER, *ids("e"), STOP, NEWLINE, START, ASSISTANT, *ids("f"), STOP, NEWLINE]
    assert found.ids.tolist() == first + second
    assert found.mask is not None
    # what the assistant says, with the token that ends its turn; not the line break behind it
    assert found.mask.tolist() == [0] * 7 + [1, 1, 1] + [0] * 6 + [0] * 7 + [1, 1] + [0]
    assert (found.lengths.tolist(), found.wheres, found.losses) == ([16, 10], ["x:1", "x:2"], Losses(2))


def test_pairs_by_hand(letters: Tokenizer) -> None:
    records = [
        PreferenceRecord("a", "b", "cd", 0.5, where="x:1"),
        PreferenceRecord("a", "b", "b", 2.0, where="x:2"),
        PreferenceRecord("a", "c", "b", where="x:3"),
    ]
    found = encode_pairs(records, letters)
    prompt = [START, USER, *ids("a"), STOP, NEWLINE, START, ASSISTANT]
    answers = ["b", "cd", "c", "b"]
    assert found.ids.tolist() == [token for answer in answers for token in [*prompt, *ids(answer), STOP]]
    assert found.mask is not None
    assert found.mask.tolist() == [m for answer in answers for m in [0] * 7 + [1] * (len(answer) + 1)]
    assert (found.lengths.tolist(), found.margins.tolist()) == ([9, 10, 9, 9], [0.5, 0.0])
    assert found.wheres == ["x:1", "x:1", "x:3", "x:3"]
    assert found.losses == Losses(3, {"equal_answers": 1}, {"equal_answers": "x:2"})


def test_labelled_answers_by_hand(letters: Tokenizer) -> None:
    records = [
        LabelledRecord("a", "b", True, where="x:1"),
        PreferenceRecord("a", "c", "d", where="x:2"),
        PreferenceRecord("a", "b", "b", where="x:3"),
        LabelledRecord("a", "b", False, where="x:4"),
    ]
    found = encode_labelled(records, letters)
    prompt = [START, USER, *ids("a"), STOP, NEWLINE, START, ASSISTANT]
    assert found.ids.tolist() == [token for answer in "bcdb" for token in [*prompt, *ids(answer), STOP]]
    assert found.mask is not None and found.mask.tolist() == ([0] * 7 + [1] * 2) * 4
    assert found.margins.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert found.wheres == ["x:1", "x:2", "x:2", "x:4"]
    assert found.losses == Losses(6, {"equal_answers": 2}, {"equal_answers": "x:3"})


def test_prompt_and_answer_by_hand(letters: Tokenizer) -> None:
    (found,) = prompt_and_answer(letters, [PreferenceRecord("a", "b", "c", where="x:1")], ["b"])
    assert found == ([START, USER, *ids("a"), STOP, NEWLINE, START, ASSISTANT], [*ids("b"), STOP])


@pytest.mark.parametrize(
    ("kind", "record", "words"),
    [
        (
            "text",
            PromptRecord("a", where="x:7"),
            "^x:7: expected TextRecord .* for language-model rows, got a prompt record",
        ),
        (
            "chat",
            TextRecord("a", where="x:7"),
            "^x:7: expected ResponseRecord .* for chat rows, got a text record",
        ),
        (
            "pairs",
            ResponseRecord("a", "b", where="x:7"),
            "^x:7: expected PreferenceRecord .* for preference rows, got a response",
        ),
        ("pairs", PreferenceRecord("a", "<|im_end|>", "b", where="x:7"), "x:7: .*without control tokens"),
        ("chat", ResponseRecord("a<|im_end|>", "b", where="x:7"), "x:7: expected user text without control tokens"),
    ],
)
def test_records_that_do_not_fit_are_named(kind, record, words, letters: Tokenizer) -> None:
    with pytest.raises(DataError, match=words):
        ENCODERS[kind]([record], letters)
