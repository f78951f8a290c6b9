from __future__ import annotations

import time
from fractions import Fraction

import pytest

from llmstack.rewards.numbers import equal_numbers, last_boxed, numbers_in


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("42", ["42"]),
        ("is 42.", ["42"]),
        ("-4, +5, .5 and \u22127", ["-4", "5", "1/2", "-7"]),
        ("10-3=7", ["10", "3", "7"]),
        ("5 - 3", ["5", "3"]),
        ("x=-4", ["-4"]),
        ("$1,234,567.50", ["2469135/2"]),
        ("12,34 and 1,2345", ["12", "34", "1", "2345"]),
        ("1{,}000", ["1000"]),
        ("3/4, 3 / 4 and 1 1/2", ["3/4", "3/4", "3/2"]),
        ("-1 1/2", ["-3/2"]),
        (r"\frac{3}{4} \dfrac12 \tfrac{-3}{4}", ["3/4", "1/2", "-3/4"]),
        ("50% or 50\\%", ["50", "50"]),
        ("1.5e3 and 2 \\times 10^{-2} and 3*10**2", ["1500", "1/50", "300"]),
        ("1/0", []),
        ("room a1, v2.0", []),
        ("none", []),
        ("9" * 400, []),
    ],
)
def test_numbers_of_a_text(text, numbers):
    assert [str(number) for number in numbers_in(text)] == numbers


def test_percent_as_a_share():
    assert numbers_in("50% of 3", percent_as_share=True) == [Fraction(1, 2), 3]


def test_the_last_closed_box():
    assert last_boxed(r"\boxed{1} then \boxed{\frac{1}{2}} and \boxed{3") == r"\frac{1}{2}"
    assert last_boxed(r"\fbox {a \boxed{b}}") == "b"
    assert last_boxed("} {1}") is None


def test_tolerances_are_exact():
    close = {"abs_tolerance": 0.0, "rel_tolerance": 0.0}
    assert not equal_numbers(Fraction(10**30 + 1), Fraction(10**30), **close)
    assert equal_numbers(Fraction(1, 3), Fraction("0.3333333"), abs_tolerance=1e-6, rel_tolerance=0.0)
    assert equal_numbers(Fraction(101), Fraction(100), abs_tolerance=0.0, rel_tolerance=0.01)
    assert not equal_numbers(Fraction(102), Fraction(100), abs_tolerance=1.0, rel_tolerance=0.01)


@pytest.mark.parametrize("text", [r"\boxed{" * 3000, "1 " * 9000, "1," * 9000, "-" * 20000, "9" * 20000, "1/" * 9000])
def test_hostile_texts_take_no_time(text):
    started = time.perf_counter()
    numbers_in(text)
    last_boxed(text)
    assert time.perf_counter() - started < 2
