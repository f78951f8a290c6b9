from __future__ import annotations

import pytest

from llmstack.data.clean.sentences import count_sentences, split_sentences


@pytest.mark.parametrize(
    ("text", "wanted", "count"),
    [
        ("One. Two!\n\nThree?", ["One.", "Two!", "Three?"], 3),
        ("He said “no.” Then 3.5 went.", ["He said “no.”", "Then 3.5 went."], 2),
        ("  A rest without an end", ["A rest without an end"], 0),
        ("一句。两句！", ["一句。", "两句！"], 2),
        ("So...  what?!", ["So...", "what?!"], 2),
        (" \n", [], 0),
    ],
)
def test_sentences_end_at_marks(text, wanted, count):
    assert [text[start:end] for start, end in split_sentences(text)] == wanted
    assert count_sentences(text) == count
