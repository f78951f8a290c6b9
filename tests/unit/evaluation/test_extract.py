from __future__ import annotations

import pytest

from llmstack.errors import UserError
from llmstack.evaluation.extract import Extractor, canonical


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9 * 2 = 18 a day.\n#### 18", "18"),
        ("#### 3\nno, 4\n#### 1,000 ", "1000"),
        ("#### seven", "seven"),
        ("It costs $1,234.50.", "1234.5"),
        ("from 3 to -4", "-4"),
        ("half is .5", "0.5"),
        ("none", None),
        ("", None),
    ],
)
def test_after_the_mark_or_the_last_number(text, found):
    assert Extractor().find(text) == found


def test_a_pattern_finds_its_last_match_or_group():
    assert Extractor(r"\b[A-D]\b").find("A or B? (C).") == "C"
    assert Extractor(r"answer is (\w+)").find("the answer is x. the answer is y.") == "y"
    assert Extractor(r"(a)|b").find("b") == ""
    assert Extractor("z").find("abc") is None


def test_the_known_answer_may_be_bare():
    assert Extractor().known("so 2 + 2 = 4\n#### 4.0") == "4"
    assert Extractor(r"answer is (\w+)").known(" B ") == "B"
    assert Extractor().known(" yes ") == "yes"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (" 1,000 ", "1000"), ("$5", "5"), ("5.00", "5"), ("5.", "5"), ("05", "5"), ("50%", "50"), ("-0.0", "0"),
        ("-.50", "-0.5"), ("+3", "3"), ("100", "100"), ("0", "0"), ("1e5", "1e5"), ("x.", "x."), (".", "."), ("", ""),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.1"), ("\u0663", "\u0663"),
    ],
)  # fmt: skip
def test_equal_numbers_have_one_form(text, form):
    assert canonical(text) == form


def test_a_broken_pattern_is_refused():
    with pytest.raises(UserError, match=r"--extract: expected a regular expression, got '\(' \("):
        Extractor("(")
