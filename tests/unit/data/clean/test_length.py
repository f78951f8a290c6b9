from __future__ import annotations

import pytest

from llmstack.config.clean import LengthConfig
from llmstack.data.clean.length import Length
from tests.unit.data.clean.corpus import outcome


@pytest.mark.parametrize(
    ("bound", "text", "reason"),
    [
        ({"min_chars": 4}, "abcd", ""),
        ({"min_chars": 5}, "abcd", "fewer than 5 characters"),
        ({"max_chars": 4}, "abcd", ""),
        ({"max_chars": 3}, "abcd", "more than 3 characters"),
        ({"min_words": 2}, "a\nb", ""),
        ({"min_words": 3}, "a  b", "fewer than 3 words"),
        ({"max_words": 2}, "a b", ""),
        ({"max_words": 1_000}, "a " * 1_001, "more than 1,000 words"),
    ],
)
def test_bounds_are_inclusive(bound, text, reason):
    found = outcome(Length(LengthConfig(kind="length", **bound), seed=0), text)
    assert (found.reason, found.text) == (reason, None if reason else text)
