from __future__ import annotations

import pytest

from llmstack.rewards import patterns
from llmstack.rewards.steps import StepBatch, step_spans, token_at

BLANK = r"\n\s*\n"


def cut(text, split=BLANK):
    return [text[start:end] for start, end in step_spans(text, split)]


def test_steps_stand_between_blank_lines():
    assert cut("one\nmore\n\n \n two \n\nthree\n") == ["one\nmore", "two", "three"]
    assert cut(" \n\n ") == [] and cut("") == []
    assert cut("Step 1: a Step 2: b", r"Step \d+:") == ["a", "b"]


def test_a_search_without_an_end_has_one(monkeypatch):
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        step_spans("a" * 200 + "b", "(a|aa)+$")


def decode(ids):
    """Two bytes of a character in tokens of their own, and a control token that shows as nothing."""
    pieces = {1: b"ab", 2: b"c", 3: b"\xc3", 4: b"\xa9", 9: b""}
    return b"".join(pieces[i] for i in ids).decode("utf-8", "replace")


def test_the_token_that_completes_a_text():
    ids = [1, 2, 3, 4, 1, 9]
    assert decode(ids) == "abc\u00e9ab"
    assert [token_at(ids, decode, end) for end in range(1, 7)] == [0, 0, 1, 3, 4, 4]
    assert token_at(ids, decode, 99) == 5
    assert token_at([3], decode, 1) == 0


def test_a_batch_of_steps_has_a_length():
    assert len(StepBatch(["p"], [["a", "b"]], [None])) == 1
