from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.clean import GopherRepetitionConfig
from llmstack.data.clean.gopher_repetition import (
    GopherRepetition,
    duplicate_ngram_char_ratio,
    duplicate_ratios,
    top_ngram_char_ratio,
)
from llmstack.data.clean.words import word_hashes
from tests.unit.data.clean.corpus import Writer, outcome

RATIOS = [key for key in GopherRepetitionConfig.model_fields if key.endswith(("line_ratio", "paragraph_ratio"))]
CHAR_RATIOS = ["max_duplicate_line_char_ratio", "max_duplicate_paragraph_char_ratio"]
TABLES = ["max_top_ngram_char_ratio", "max_duplicate_ngram_char_ratio"]
OFF = dict.fromkeys((*RATIOS, *CHAR_RATIOS)) | {key: {} for key in TABLES}
PAPER = GopherRepetitionConfig(kind="gopher_repetition")


def judged(text: str, **options) -> str:
    """The reason why a text is dropped by some of the rules alone; empty when it is kept."""
    config = GopherRepetitionConfig(kind="gopher_repetition", **(OFF | options))
    found = outcome(GopherRepetition(config, seed=0), text)
    assert (found.text == text) is (found.reason == "")
    return found.reason


def pieces(repeats: int, total: int, separator: str, *, repeated: str = "rr") -> str:
    """Pieces of two letters of which some repeat the first."""
    others = [chr(97 + number) * 2 for number in range(total - repeats - 1)]
    return separator.join([*[repeated] * (repeats + 1), *others])


@pytest.mark.parametrize("separator", ["\n", "\n\n"])
def test_repeated_pieces_at_the_limit(separator):
    key, reason = (RATIOS[0], "repeated lines") if separator == "\n" else (RATIOS[1], "repeated paragraphs")
    limit = {key: getattr(PAPER, key)}
    assert limit == {key: 0.30}
    assert judged(pieces(3, 10, separator), **limit) == ""
    assert judged(pieces(4, 10, separator), **limit) == reason


@pytest.mark.parametrize("separator", ["\n", "\n\n"])
def test_characters_in_repeated_pieces_at_the_limit(separator):
    place = separator == "\n\n"
    limit = {CHAR_RATIOS[place]: getattr(PAPER, CHAR_RATIOS[place])}
    reason = f"characters in repeated {'paragraphs' if place else 'lines'}"
    assert judged(pieces(2, 10, separator), **limit) == ""  # 4 of 20 characters
    assert judged(pieces(2, 10, separator, repeated="rr r"), **limit) == reason  # 6 of 23


@pytest.mark.parametrize(("size", "limit"), [(2, 0.20), (3, 0.18), (4, 0.16)])
def test_the_most_frequent_ngram_at_the_limit_of_the_table(size, limit):
    assert PAPER.max_top_ngram_char_ratio[size] == limit
    total = round(2 * size / limit)
    if size == 2:  # 4 of 20 words of one letter
        assert (total, 2 * size / total) == (20, limit)
    for count, reason in ((total + 1, ""), (total - 3, f"a frequent {size}-gram")):
        words = [*"rstu"[:size] * 2, *(chr(0x4E00 + number) for number in range(count - 2 * size))]
        assert (2 * size / count > limit) is bool(reason)
        assert judged(" ".join(words), max_top_ngram_char_ratio={size: limit}) == reason


@pytest.mark.parametrize(("size", "limit"), [(5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10)])
def test_repeated_ngrams_at_the_limit_of_the_table(size, limit):
    assert PAPER.max_duplicate_ngram_char_ratio[size] == limit
    most = 2 * size / limit  # words of one letter of which the two copies are just the limit
    for count, reason in ((int(most) + 1, ""), (int(most) - 1, f"repeated {size}-grams")):
        others = [chr(0x4E00 + number) for number in range(count - 2 * size)]
        words = [*"abcdefghij"[:size], *others, *"abcdefghij"[:size]]
        assert judged(" ".join(words), max_duplicate_ngram_char_ratio={size: limit}) == reason


def hashed(text: str):
    words = text.split()
    return word_hashes(words), np.array([len(word) for word in words])


def test_values_by_hand():
    assert duplicate_ratios(["aa", "b b", "aa", "b b", "c"]) == (2 / 5, 4 / 9)
    assert duplicate_ratios([]) == (0.0, 0.0)
    # "x y" is there twice (words 1-2 and 5-6), nothing else is: 6 of 16 characters
    text = "xx y aaaa b xx y ccccc"
    assert top_ngram_char_ratio(*hashed(text), 2) == 6 / 16
    assert duplicate_ngram_char_ratio(*hashed(text), 2) == 6 / 16
    # "a a" at three places overlaps itself: four words once each
    assert top_ngram_char_ratio(*hashed("a a a a b"), 2) == 4 / 5
    assert duplicate_ngram_char_ratio(*hashed("a a a a b"), 2) == 4 / 5
    # of two equally frequent ones the longer counts
    assert top_ngram_char_ratio(*hashed("a a a b b ccc ccc ccc"), 1) == 9 / 14


def test_an_ngram_that_occurs_once_is_no_repetition():
    for value in (top_ngram_char_ratio, duplicate_ngram_char_ratio):
        assert value(*hashed("a b c"), 2) == 0.0
        assert value(*hashed("a"), 2) == 0.0


def test_prose_passes_and_a_refrain_does_not():
    writer = Writer(3)
    step = GopherRepetition(PAPER, seed=0)
    assert all(outcome(step, "\n".join(writer.lines())).text for _ in range(50))
    lines = writer.lines(6)
    assert outcome(step, "\n".join([*lines, *lines[:4]])).reason == "repeated lines"
    assert outcome(step, " ".join([*lines, *lines[:4]])).reason == "repeated 5-grams"
