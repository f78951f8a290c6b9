from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.encode import encode_chat, encode_pairs, encode_text, prompt_and_answer
from llmstack.data.records import (
    Message,
    MessagesRecord,
    PreferenceRecord,
    ResponseRecord,
    TextRecord,
    TokensRecord,
)
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from tests.unit.data.letters import ASSISTANT, END, NEWLINE, START, STOP, USER, ids, letter_tokenizer

A, B, C = ids("abc")
PROMPT_A = [START, USER, A, STOP, NEWLINE, START, ASSISTANT]


def test_text_by_hand(letters: Tokenizer) -> None:
    encoded = encode_text(
        [TextRecord("ab", where="x:1"), TextRecord("", where="x:2"), TokensRecord(np.array([B]), where="x:3")], letters
    )
    assert (encoded.ids.tolist(), encoded.lengths.tolist()) == ([A, B, END, B], [3, 1])
    assert encoded.mask is None and encoded.wheres == ["x:1", "x:3"]
    assert (encoded.losses.records, encoded.losses.counts, encoded.losses.examples) == (
        3,
        {"empty": 1},
        {"empty": "x:2"},
    )


def test_text_begins_with_one_bos() -> None:
    assert encode_text([TextRecord("a")], letter_tokenizer(bos=True)).ids.tolist() == [START, A, END]


def test_chat_by_hand(letters: Tokenizer) -> None:
    turns = (Message("user", "a"), Message("assistant", "b"), Message("user", "a"), Message("assistant", "c"))
    encoded = encode_chat([ResponseRecord("a", "bc", where="x:1"), MessagesRecord(turns, where="x:2")], letters)
    first, second = np.split(encoded.ids, encoded.lengths.cumsum()[:-1])
    trained, also = np.split(encoded.mask, encoded.lengths.cumsum()[:-1])
    assert first.tolist() == [*PROMPT_A, B, C, STOP, NEWLINE]
    # the answer and the token that ends it, not the line break behind
    assert trained.tolist() == [0] * 7 + [1, 1, 1, 0]
    assert second[also == 1].tolist() == [B, STOP, C, STOP]


def test_pairs_by_hand(letters: Tokenizer) -> None:
    pairs = [PreferenceRecord("a", "bc", "b", 0.5, where="x:1"), PreferenceRecord("a", "b", "b", where="x:2")]
    encoded = encode_pairs(pairs, letters)
    assert encoded.ids.tolist() == [*PROMPT_A, B, C, STOP, *PROMPT_A, B, STOP]
    assert encoded.mask.tolist() == [0] * 7 + [1] * 3 + [0] * 7 + [1] * 2
    assert (encoded.lengths.tolist(), encoded.margins.tolist(), encoded.wheres) == ([10, 9], [0.5], ["x:1"] * 2)
    assert encoded.losses.counts == {"equal_answers": 1}


def test_pairs_that_are_all_equal_give_no_documents(letters: Tokenizer) -> None:
    encoded = encode_pairs([PreferenceRecord("a", "b", "b")], letters)
    assert (len(encoded.lengths), len(encoded.margins)) == (0, 0)


def test_an_answer_without_a_token_is_refused(letters: Tokenizer) -> None:
    untagged = "{% for m in messages %}{% generation %}{% endgeneration %}{{ m.content }}<|im_end|>{% endfor %}"
    with pytest.raises(DataError, match="x:1: expected an answer with a token"):
        prompt_and_answer(letter_tokenizer(template=untagged), [PreferenceRecord("a", "b", "c", where="x:1")], ["b"])
