from __future__ import annotations

import pytest

from llmstack.errors import UserError
from llmstack.generation.stops import StopTexts


def spell(ids):
    return "".join(["ab", "c", "d\n", "e"][i] for i in ids)


def test_the_answer_is_what_comes_before_the_first_stop_text():
    stops = StopTexts(["\n", "cd"], spell)
    assert stops.cut("abcd\ne") == "ab"
    assert stops.cut("ab\ncd") == "ab"
    assert stops.cut("abe") == "abe"


@pytest.mark.parametrize(
    ("ids", "known", "end"),
    [([0, 1], 0, None), ([0, 1, 2], 0, 3), ([0, 1, 2, 3, 3], 0, 3), ([0, 1, 2, 3], 2, 3), ([], 0, None)],
)
def test_the_end_is_the_token_that_completes_the_text(ids, known, end):
    """``cd`` begins in one token and ends within the next."""
    assert StopTexts(["cd"], spell).end_of(ids, known) == end


def test_no_texts_stop_nothing():
    assert not StopTexts([], spell)
    assert StopTexts(["a"], spell)
    assert StopTexts([], spell).cut("abc") == "abc"


def test_an_empty_text_is_refused():
    with pytest.raises(UserError, match="stop: expected a text, got an empty one"):
        StopTexts(["a", ""], spell)
