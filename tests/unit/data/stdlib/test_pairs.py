from __future__ import annotations

import random
from collections import Counter

import pytest

from llmstack.data.stdlib.pairs import _SPOILERS, PAIRS_PER_SUMMARY, StylePair, repair, style_pairs
from llmstack.data.stdlib.style import is_pep257, violations
from llmstack.data.stdlib.summaries import Summary, read_summaries

GOOD = Summary(
    "dedent",
    "def dedent(text, width=3, *args):",
    "Remove any common leading whitespace from every line.",
    "This can be used to make triple-quoted strings line up.\n\nMore.",
    "textwrap.py:419",
)


def summary(text: str, signature: str = "def f():") -> Summary:
    return Summary("f", signature, text, "", "m.py:1")


@pytest.fixture(scope="module")
def real() -> list[StylePair]:
    return list(style_pairs(read_summaries()["eval"], seed=1))


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("Returns the value", "Return the value."),
        ("return the value.", "Return the value."),
        ("tries again", "Try again."),
        ("Return the\n  value", "Return the value."),
        ("This function returns the value.", "Return the value."),
        ("This method also closes the file", "Close the file."),
        ("True if x is closed.", "Return True if x is closed."),
        ("Whether x is closed", "Return whether x is closed."),
        ("Close the file. It is not\nopened again.", "Close the file."),
        ("Use foo, e.g. bar of it", "Use foo, e.g. bar of it."),
        ("Close the file:", "Close the file."),
    ],
)
def test_repair(bad: str, good: str) -> None:
    assert not is_pep257(bad)
    assert repair(bad) == good


@pytest.mark.parametrize("bad", ["The value.", "Helper for x.", "", "x", "Return " + "x" * 70, "Is it -- or not?"])
def test_what_words_alone_cannot_repair(bad: str) -> None:
    assert repair(bad) is None


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("third_person", {"Removes any common leading whitespace from every line"}),
        (
            "this_function",
            {
                "This function removes any common leading whitespace from every line",
                "This removes any common leading whitespace from every line",
                "Used to remove any common leading whitespace from every line",
            },
        ),
        (
            "noun_phrase",
            {
                f"{noun} to remove any common leading whitespace from every line"
                for noun in ("Helper", "Function", "Utility", "Convenience function")
            },
        ),
        ("lower_case", {"remove any common leading whitespace from every line"}),
        ("no_full_stop", {"Remove any common leading whitespace from every line"}),
        (
            "call_form",
            {
                f"dedent(text, width){arrow}remove any common leading whitespace from every line"
                for arrow in (" -> ", " --> ", ": ")
            },
        ),
    ],
)
def test_violations_as_authors_write_them(kind: str, expected: set[str]) -> None:
    found = {_SPOILERS[kind](GOOD.text, GOOD, random.Random(seed)) for seed in range(60)}
    assert {text.removesuffix(".") for text in found if text} == expected


def test_several_lines_break_the_sentence_or_run_on() -> None:
    found = {_SPOILERS["several_lines"](GOOD.text, GOOD, random.Random(seed)) for seed in range(60)}
    assert f"{GOOD.text}\nThis can be used to make triple-quoted strings line up." in found
    assert all(text and violations(text)[0] == "several_lines" for text in found)
    assert _SPOILERS["several_lines"]("Close it.", summary("Close it."), random.Random(0)) is None


def test_too_long_goes_on_with_the_next_sentence() -> None:
    text = _SPOILERS["too_long"](GOOD.text, GOOD, random.Random(1))
    assert text is not None
    assert text.startswith(GOOD.text + " This can be used")
    assert "too_long" in violations(text)
    assert _SPOILERS["too_long"](GOOD.text, summary(GOOD.text), random.Random(1)) is None


def test_cut_short_stops_in_the_middle() -> None:
    text = _SPOILERS["cut_short"](GOOD.text, GOOD, random.Random(1))
    assert text is not None
    assert GOOD.text.startswith(text + " ")
    assert _SPOILERS["cut_short"]("Close the file.", summary("Close the file."), random.Random(1)) is None


def test_noun_phrase_of_a_return() -> None:
    text = "Return the value."
    assert {_SPOILERS["noun_phrase"](text, summary(text), random.Random(seed)) for seed in range(20)} == {
        "The value.",
        "The value",
    }


def test_authors_own_wording_is_the_first_rejected_one() -> None:
    pairs = list(style_pairs([summary("Returns the value of x")], seed=1))
    assert (pairs[0].chosen, pairs[0].rejected, pairs[0].violation) == (
        "Return the value of x.",
        "Returns the value of x",
        "original",
    )
    assert len(pairs) <= PAIRS_PER_SUMMARY


def test_summary_that_cannot_be_repaired_gives_no_pair() -> None:
    assert list(style_pairs([summary("The value.")], seed=1)) == []


def test_pairs_depend_on_seed_and_summary_alone() -> None:
    alone = list(style_pairs([GOOD], seed=1))
    among = list(style_pairs([summary("Close the file."), GOOD], seed=1))
    assert [pair for pair in among if pair.summary == GOOD] == alone
    assert {pair.rejected for seed in range(9) for pair in style_pairs([GOOD], seed=seed)} > {p.rejected for p in alone}


def test_every_real_pair_is_one_of_style(real: list[StylePair]) -> None:
    assert len(real) >= 1000
    assert all(is_pep257(pair.chosen) and not is_pep257(pair.rejected) for pair in real)
    assert len({(pair.summary.signature, pair.chosen, pair.rejected) for pair in real}) == len(real)


def test_violations_are_varied(real: list[StylePair]) -> None:
    counts = Counter(pair.violation for pair in real)
    assert set(counts) == {*_SPOILERS, "original"}
    assert max(counts.values()) < 0.2 * len(real)


def test_length_alone_does_not_tell_the_sides_apart(real: list[StylePair]) -> None:
    gaps = [len(pair.rejected) - len(pair.chosen) for pair in real]
    for gap in range(6):
        assert sum(g > gap for g in gaps) < 0.56 * len(gaps)
        assert sum(g < -gap for g in gaps) < 0.56 * len(gaps)
