from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.answer_rows import PreferenceRows
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.encode import prompt_and_answer
from llmstack.data.records import (
    LabelledRecord,
    Message,
    MessagesRecord,
    PreferenceRecord,
    PromptRecord,
    ResponseRecord,
    TextRecord,
)
from llmstack.data.rows import prompt_rows
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from tests.helpers.rows import chat, everything, labelled, pairs, text
from tests.unit.data.letters import ASSISTANT, END, NEWLINE, PAD, START, STOP, USER, ids, letter_tokenizer

A, B, C = ids("abc")
PROMPT_A = [START, USER, A, STOP, NEWLINE, START, ASSISTANT]


def test_text_rows_by_hand(letters: Tokenizer) -> None:
    rows = text([TextRecord("ab"), TextRecord("c"), TextRecord("")], letters, 6)
    assert {name: array.tolist() for name, array in everything(rows).items()} == {
        "tokens": [[A, B, END, C, END, PAD]],
        "labels": [[B, END, END, END, END, PAD]],
        "loss_mask": [[1, 1, 0, 1, 0, 0]],
        "positions": [[0, 1, 2, 0, 1, 0]],
        "segments": [[1, 1, 1, 2, 2, 0]],
    }
    assert (len(rows), rows.num_tokens) == (1, 5)
    assert (rows.report.records, rows.report.kept, rows.report.cut, rows.report.dropped) == (3, 2, 0, {"empty": 1})
    assert rows.report.padding_ratio == pytest.approx(1 / 6)


def test_text_rows_count_cut_documents(letters: Tokenizer) -> None:
    rows = text([TextRecord("abcabc"), TextRecord("a")], letters, 4)
    assert rows.report.cut == 1
    assert everything(rows)["loss_mask"].sum() == 6 + 1


def test_text_rows_begin_with_one_bos() -> None:
    rows = text([TextRecord("a")], letter_tokenizer(bos=True), 4)
    assert everything(rows)["tokens"].tolist() == [[START, A, END, PAD]]
    assert everything(rows)["loss_mask"].tolist() == [[1, 1, 0, 0]]


def test_text_rows_are_the_same_when_pad_is_eos() -> None:
    records = [TextRecord("ab"), TextRecord("c")]
    plain, shared = (everything(text(records, letter_tokenizer(pad=pad), 8)) for pad in ("<|pad|>", "<|endoftext|>"))
    assert (shared["tokens"] == END).sum() == 2 + 3
    for name in ("positions", "segments", "loss_mask"):
        assert (plain[name] == shared[name]).all()
    assert (plain["labels"][plain["loss_mask"] == 1] == shared["labels"][shared["loss_mask"] == 1]).all()


def test_text_rows_refuse_an_empty_data_set(letters: Tokenizer) -> None:
    with pytest.raises(DataError, match="got an empty data set"):
        text([], letters, 4)
    with pytest.raises(DataError, match="x:1: expected text, got only empty documents"):
        text([TextRecord("", where="x:1")], letters, 4)


def test_chat_rows_by_hand(letters: Tokenizer) -> None:
    rows = chat([ResponseRecord("a", "bc")], letters, 12, 0.0)
    assert {name: array.tolist()[0] for name, array in everything(rows).items()} == {
        "tokens": [*PROMPT_A, B, C, STOP, NEWLINE, PAD],
        "labels": [*PROMPT_A[1:], B, C, STOP, NEWLINE, NEWLINE, PAD],
        # trained: what follows the opening of the assistant's turn, up to the token that ends it
        "loss_mask": [0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0],
        "positions": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0],
        "segments": [1] * 11 + [0],
    }


def test_chat_rows_train_every_assistant_turn(letters: Tokenizer) -> None:
    turns = (Message("user", "a"), Message("assistant", "b"), Message("user", "a"), Message("assistant", "c"))
    rows = chat([MessagesRecord(turns)], letters, 24, 0.0)
    trained = everything(rows)["loss_mask"][0] == 1
    assert everything(rows)["labels"][0][trained].tolist() == [B, STOP, C, STOP]


def test_chat_row_that_is_cut_keeps_its_beginning_and_makes_up_no_end(letters: Tokenizer) -> None:
    rows = chat([ResponseRecord("a", "bc")], letters, 9, 0.0)
    assert everything(rows)["tokens"].tolist() == [[*PROMPT_A, B, C]]
    assert everything(rows)["labels"][0][everything(rows)["loss_mask"][0] == 1].tolist() == [B, C]
    assert rows.report.cut == 1


def test_untrained_samples_are_counted_below_the_limit(letters: Tokenizer) -> None:
    records = [ResponseRecord("a", "b", where="x:1"), ResponseRecord("abcabc", "b", where="x:2")]
    rows = chat(records, letters, 12, 0.5)
    assert rows.report.as_dict() == {
        "records": 2,
        "kept": 1,
        "cut": 0,
        "dropped": {"prompt_fills_row": 1},
        "examples": {"prompt_fills_row": "x:2"},
        "padding_ratio": pytest.approx(2 / 12),
    }


def test_too_many_untrained_samples_are_refused(letters: Tokenizer) -> None:
    records = [ResponseRecord("a", "b"), ResponseRecord("abcabc", "b", where="x:2")]
    with pytest.raises(DataError, match=r"x:2: expected at most 10% .*, got 1 of 2\. In this one its prompt alone"):
        chat(records, letters, 12, 0.1)


def test_no_trained_token_at_all_is_refused_whatever_the_limit(letters: Tokenizer) -> None:
    record = MessagesRecord((Message("user", "a"),), where="x:5")
    with pytest.raises(DataError, match="x:5: .* got 1 of 1. In this one it has no assistant turn"):
        chat([record], letters, 12, 1.0)


def test_preference_rows_by_hand(letters: Tokenizer) -> None:
    rows = pairs([PreferenceRecord("a", "bc", "b", 0.5)], letters, 12)
    batch = rows.take(np.array([0]))
    assert {name: array.tolist() for name, array in batch.items()} == {
        "tokens": [[*PROMPT_A, B, C, STOP, PAD, PAD], [*PROMPT_A, B, STOP, PAD, PAD, PAD]],
        "positions": [[*range(10), 0, 0], [*range(9), 0, 0, 0]],
        "segments": [[1] * 10 + [0] * 2, [1] * 9 + [0] * 3],
        "last": [9, 8],
        "answer": [3, 2],
        "margin": [0.5],
    }
    assert rows.num_tokens == 19


def test_long_pair_loses_the_beginning_of_its_prompt_on_both_sides(letters: Tokenizer) -> None:
    rows = pairs([PreferenceRecord("a", "bc", "b")], letters, 6)
    assert everything(rows)["tokens"].tolist() == [
        [*PROMPT_A[-3:], B, C, STOP],
        [*PROMPT_A[-3:], B, STOP, PAD],
    ]
    assert rows.report.cut == 1


def test_pairs_that_cannot_be_used_are_counted(letters: Tokenizer) -> None:
    records = [
        PreferenceRecord("a", "b", "c", where="x:1"),
        PreferenceRecord("a", "bcbcbcbc", "c", where="x:2"),
        PreferenceRecord("a", "b", "b", where="x:3"),
    ]
    report = pairs(records, letters, 8).report
    assert (report.kept, report.dropped) == (1, {"answer_too_long": 1, "equal_answers": 1})
    assert report.examples == {"answer_too_long": "x:2", "equal_answers": "x:3"}
    with pytest.raises(DataError, match=r"x:2: expected at most 100% of the pairs .* seq_len 8 .*got 1 of 1. Here one"):
        pairs(records[1:2], letters, 8)
    with pytest.raises(DataError, match=r"x:3: expected at most 40% of the pairs .*got 1 of 2. Here both are the same"):
        pairs([records[0], records[2]], letters, 8, max_dropped_ratio=0.4)


def test_last_is_the_end_of_the_answer_whatever_pads(letters: Tokenizer) -> None:
    records = [PreferenceRecord("a", "bc", "b")]
    other = pairs(records, letter_tokenizer(pad="<|im_end|>"), 12)
    for name in ("last", "segments", "positions"):
        assert (everything(other)[name] == everything(pairs(records, letters, 12))[name]).all()


def test_answer_without_any_token_is_refused(letters: Tokenizer) -> None:
    untagged = "{% for m in messages %}{% generation %}{% endgeneration %}{{ m.content }}<|im_end|>{% endfor %}"
    with pytest.raises(DataError, match="x:1: expected an answer with a token"):
        pairs([PreferenceRecord("a", "b", "c", where="x:1")], letter_tokenizer(template=untagged), 12)


def test_prompt_rows_by_hand(letters: Tokenizer) -> None:
    rows = prompt_rows([PromptRecord("a", "b"), ResponseRecord("", "c"), PromptRecord("a")], letters, (8, 10))
    batch = rows.take(np.array([1, 0]))
    assert {name: array.tolist() for name, array in batch.items()} == {
        "tokens": [[PAD, PAD, START, USER, STOP, NEWLINE, START, ASSISTANT], [PAD, *PROMPT_A]],
        "lengths": [6, 7],
        "index": [1, 0],
    }
    assert rows.prompts == ("a", "", "a")
    assert rows.answers == ("b", "c", None)


def test_prompt_longer_than_the_last_bucket(letters: Tokenizer) -> None:
    with pytest.raises(
        DataError, match=r"x:2: expected prompts of at most 8 tokens .*got 10 .*Raise the last bucket to 10"
    ):
        prompt_rows([PromptRecord("a", where="x:1"), PromptRecord("abca", where="x:2")], letters, (4, 8))


def test_a_pair_may_have_a_conversation_before_its_answers(letters: Tokenizer) -> None:
    prompt = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    (before, good), (_, bad) = prompt_and_answer(letters, [PreferenceRecord(prompt, "d", "e")] * 2, ["d", "e"])
    assert before == letters.encode_prompt(prompt)
    assert (good, bad) == ([*ids("d"), STOP], [*ids("e"), STOP])
    rows = pairs([PreferenceRecord(prompt, "d", "e")], letters, 32)
    assert everything(rows)["tokens"][0, : len(before) + 2].tolist() == before + good
    assert everything(rows)["last"].tolist() == [len(before) + 1] * 2


def test_an_answer_without_a_token_is_not_the_turn_before(letters: Tokenizer) -> None:
    tagged = (
        "{% for m in messages %}<|im_start|>{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}"
        "{% endgeneration %}{% else %}{{ m.content }}{% endif %}<|im_end|>{% endfor %}"
    )
    prompt = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    with pytest.raises(DataError, match="x:1: expected an answer with a token, got none"):
        prompt_and_answer(letter_tokenizer(template=tagged), [PreferenceRecord(prompt, " ", "e", where="x:1")], [" "])


def test_a_prompt_may_be_a_conversation(letters: Tokenizer) -> None:
    prompt = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    rows = prompt_rows([PromptRecord(prompt, "d")], letters, (32,))
    assert rows.tokens[0, -rows.row_tokens[0] :].tolist() == letters.encode_prompt(prompt)
    assert rows.prompts == ("user: a\n\nassistant: b\n\nuser: c",)


def test_wrong_kind_of_record(letters: Tokenizer) -> None:
    with pytest.raises(DataError, match=r"expected PreferenceRecord \(.*\) for preference rows, got a text record"):
        pairs([TextRecord("a")], letters, 8)
    with pytest.raises(DataError, match=r"expected ResponseRecord \(.*\) or MessagesRecord \(messages\) for chat rows"):
        chat([TextRecord("a")], letters, 8, 0.0)
    with pytest.raises(DataError, match=r"expected TextRecord \(text\) or TokensRecord \(ids\) for language-model"):
        text([PromptRecord("a")], letters, 8)
    with pytest.raises(DataError, match=r"expected PromptRecord \(prompt\) or ResponseRecord \(.*\) for prompt rows"):
        prompt_rows([TextRecord("a")], letters, (8,))


def test_kinds_of_tables(letters: Tokenizer) -> None:
    assert isinstance(pairs([PreferenceRecord("a", "b", "c")], letters, 12), PreferenceRows)
    assert isinstance(prompt_rows([PromptRecord("a")], letters, (8,)), PromptRows)


def test_labelled_rows_hold_an_answer_each(letters: Tokenizer) -> None:
    rows = labelled([LabelledRecord("a", "bc", True), LabelledRecord("d", "e", False)], letters, 12)
    assert (rows.value.tolist(), rows.row_answers.tolist(), len(rows)) == ([1.0, 0.0], [3, 2], 2)


def test_labels_that_are_all_the_same_are_refused(letters: Tokenizer) -> None:
    records = [LabelledRecord("a", "b", True, where="x:1"), LabelledRecord("a", "c", True, where="x:2")]
    with pytest.raises(DataError, match="x:1: expected good answers and bad ones, got 2 that are all good"):
        labelled(records, letters, 12)


def test_an_answer_without_room_for_its_prompt_is_left_out(letters: Tokenizer) -> None:
    records = [LabelledRecord("a", "b", True), LabelledRecord("a", "bcdefgh", False, where="x:2")]
    with pytest.raises(
        DataError, match="x:2: expected at most 10% of the answers to be unusable, .*seq_len 8 .*1 of 2"
    ):
        labelled(records, letters, 8, max_dropped_ratio=0.1)
