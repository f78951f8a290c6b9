from __future__ import annotations

import time

import pytest

from llmstack.rewards import patterns
from llmstack.rewards.patterns import Pattern


def test_whole_or_anywhere():
    assert Pattern("a+").matches("xaay", whole=False) and not Pattern("a+").matches("xaay", whole=True)
    assert Pattern("a.b", ("dotall", "ignore_case")).matches("A\nB", whole=True)
    assert not Pattern("a.b").matches("a\nb", whole=True)
    assert Pattern("^b$", ("multiline",)).matches("a\nb", whole=False)


def test_the_last_match_counts():
    assert Pattern(r"<(\w+)>").last("<a> <b>") == "b"
    assert Pattern(r"\d").last("1 2") == "2"
    assert Pattern(r"x(y)?").last("x") == ""
    assert Pattern(r"\d").last("none") is None
    assert Pattern("=").after_last("a = b = c") == " c" and Pattern("=").after_last("a") is None


def test_a_search_without_an_end_has_one(monkeypatch):
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 0.1)
    started = time.perf_counter()
    with pytest.raises(TimeoutError):
        Pattern("(a|aa)+$").matches("a" * 200 + "b", whole=True)
    with pytest.raises(TimeoutError):
        Pattern("(a|aa)+$").last("a" * 200 + "b")
    assert time.perf_counter() - started < 5
