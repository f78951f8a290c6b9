from __future__ import annotations

import pytest

from llmstack.rewards import patterns
from tests.unit.rewards.batches import batch, make


def test_right_wrong_and_unknown():
    reward = make("exact_match", right=2.0, wrong=-1.0)
    assert reward(batch([" Red  rose ", "red rose", "x"], ["Red rose", "Red rose", None])) == [2.0, -1.0, None]


@pytest.mark.parametrize(
    ("options", "response", "answer", "equal"),
    [
        ({"ignore_case": True}, "RED", "red", True),
        ({}, "RED", "red", False),
        ({"ignore_punctuation": True}, "red.", "red", True),
        ({}, "red.", "red", False),
        ({"ignore_articles": True, "ignore_case": True}, "The red house", "red house", True),
        ({"ignore_articles": True}, "theatre", "tre", False),
        ({"ignore_space": False}, "red ", "red", False),
        ({"unicode_form": "NFKC"}, "ﬁve", "five", True),
        ({}, "e\u0301", "\u00e9", True),
        ({"unicode_form": None}, "e\u0301", "\u00e9", False),
        ({"extract": "answer: (.*)"}, "answer: 1\nanswer: 2", "2", True),
        ({"extract": "answer: (.*)"}, "2", "2", False),
    ],
)
def test_what_does_not_matter(options, response, answer, equal):
    assert make("exact_match", **options)(batch([response], [answer])) == [float(equal)]


def test_a_pattern_out_of_time_leaves_the_answer_unscored_and_is_counted(monkeypatch):
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 0.05)
    reward = make("exact_match", extract="(a|aa)+$")
    assert reward(batch(["a" * 200 + "b", "aa"], ["x", "x"])) == [None, 0.0]
    assert reward.metrics() == {"pattern_timeouts": 1.0}
    assert make("exact_match").metrics() == {}
