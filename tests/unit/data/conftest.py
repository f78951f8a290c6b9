"""A tiny tokenizer whose ids can be written out by hand."""

from __future__ import annotations

import pytest

from llmstack.data.bpe import train_bpe
from llmstack.data.chat import CHATML
from llmstack.data.tokenizer import Tokenizer
from tests.unit.data.letters import letter_tokenizer


@pytest.fixture(scope="session")
def letters() -> Tokenizer:
    """One id a character: a = 10, b = 11 ...; control tokens 0..3; see ``letters.py``."""
    return letter_tokenizer()


@pytest.fixture(scope="session")
def bpe() -> Tokenizer:
    """A byte-level BPE with a few dozen merges."""
    texts = ["Return the value of the option.", "Close the file.", "user assistant system\n"] * 20
    return Tokenizer(*train_bpe(texts, 330), CHATML)
