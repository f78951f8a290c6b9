from __future__ import annotations

import pytest

from llmstack.data.stdlib.style import is_pep257, leading_verb, style_reward, violations
from llmstack.rl.rewards_api import RewardBatch


@pytest.mark.parametrize(
    "text",
    [
        "Return the pathname of the KOS root directory.",
        "Close it.",
        " Do this and return that. ",
        "Recursively delete a directory tree.",
        "Byte-compile one file, if it has changed.",
        "Open, read and close the file.",
        "Return True if x > 0 (and False otherwise).",
        "Return " + "x" * 64 + ".",
        "Dispose of the object.",
        "Set the option.",
    ],
)
def test_in_style(text: str) -> None:
    assert violations(text) == []
    assert is_pep257(text)


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("", ["empty"]),
        (" \n", ["empty"]),
        ("Return the\nvalue.", ["several_lines"]),
        ("Return " + "x" * 65 + ".", ["too_long"]),
        ("Return.", ["too_short"]),
        ("return the value.", ["lower_case"]),
        ("Éclair the value.", ["lower_case", "not_imperative"]),
        ("Returns the value.", ["third_person"]),
        ("This function returns the value.", ["not_imperative"]),
        ("The value.", ["not_imperative"]),
        ("List of values.", ["not_imperative"]),
        ("Return the value", ["no_full_stop"]),
        ("Return the value...", ["no_full_stop"]),
        ("Return the value!", ["no_full_stop"]),
        ("dedent(text) -> str", ["lower_case", "not_imperative", "no_full_stop"]),
        ("Tries it\n" + "x" * 70, ["several_lines", "too_long", "third_person", "no_full_stop"]),
    ],
)
def test_out_of_style(text: str, broken: list[str]) -> None:
    assert violations(text) == broken
    assert not is_pep257(text)


def test_leading_verb() -> None:
    assert leading_verb("Return it.".split()) == 0
    assert leading_verb("Quickly return it.".split()) == 1
    assert leading_verb("Family of things.".split()) is None
    assert leading_verb("The return.".split()) is None


def test_reward_is_the_rule() -> None:
    batch = RewardBatch(["p"] * 3, ["Return the value.", "Returns the value.", ""], [None] * 3)
    assert style_reward(batch) == [1.0, 0.0, 0.0]
