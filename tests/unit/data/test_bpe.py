from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstack.data.bpe import SPECIAL_TOKENS, train_bpe
from llmstack.data.tokenizer import Tokenizer

TEXTS = ["Return the value of the option.", "Close the file; return nothing.", "the other option"] * 10


def test_special_tokens_come_first_then_the_bytes() -> None:
    backend, _ = train_bpe(TEXTS, 280)
    assert [backend.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3]
    assert backend.get_vocab_size() == 280


def test_small_corpus_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        backend, _ = train_bpe(["aa"], 300)
    assert backend.get_vocab_size() == 261
    assert "tokenizer.vocab_size: expected 300, got 261" in caplog.text


def test_same_texts_give_the_same_tokenizer_in_another_process() -> None:
    code = (
        "from llmstack.data.bpe import train_bpe; from tests.unit.data.test_bpe import TEXTS;"
        "print(train_bpe(TEXTS, 320)[0].to_str(), end='')"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout == train_bpe(TEXTS, 320)[0].to_str()


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_every_text_is_decoded_exactly(bpe: Tokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode(text), skip_special=False) == text
