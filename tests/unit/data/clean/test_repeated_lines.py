from __future__ import annotations

import numpy as np

from llmstack.config.clean import RepeatedLinesConfig
from llmstack.data.clean.repeated_lines import LineFilter, RepeatedLines, line_hash
from tests.unit.data.clean.corpus import (
    BOILERPLATE,
    document,
    outcome,
    outcomes,
    precision_and_recall,
    with_boilerplate,
)


def step(**options) -> RepeatedLines:
    return RepeatedLines(RepeatedLinesConfig(kind="repeated_lines", **options), seed=0)


def test_all_boilerplate_goes_and_nothing_else():
    corpus = with_boilerplate(5, originals=120, planted=30)
    found = outcomes(step(), corpus.texts)
    touched = {number for number, item in enumerate(found) if item.text != corpus.texts[number]}
    assert precision_and_recall(touched, corpus.planted) == (1.0, 1.0)
    removed = sum(change.count for item in found for change in item.changes)
    assert removed == 30 * len(BOILERPLATE)
    assert not any(line in item.text for item in found for line in BOILERPLATE)
    before, after = (sum(text.count("\n") for text in texts) for texts in (corpus.texts, [item.text for item in found]))
    assert before - after == removed


def test_the_limit_counts_documents_not_lines():
    texts = ["a line that is long enough\nother line number one"] * 3 + ["a line that is long enough\n" * 9]
    assert [item.changes for item in outcomes(step(max_documents=4, within_document=False), texts)] == [()] * 4
    found = outcomes(step(max_documents=3, within_document=False), texts)
    assert [item.text for item in found] == ["other line number one"] * 3 + [""]
    assert found[3].changes[0].count == 9


def test_within_a_document_the_first_of_equal_lines_stays():
    text = "The very same line here.\nAnother line in between.\n the very  SAME line here.\n\n}\n}"
    found = outcomes(step(max_documents=None), [text, text])
    assert {item.text for item in found} == {"The very same line here.\nAnother line in between.\n\n}\n}"}
    assert [(change.what, change.count) for change in found[0].changes] == [("lines repeated in the document", 1)]


def test_without_a_limit_nothing_is_remembered():
    one = document("a line that is long enough\nshort")
    assert step(max_documents=None).scan(one).tolist() == []
    assert step().scan(one).tolist() == [line_hash("A line that is  long enough")]


def test_a_filter_without_work_leaves_the_text_alone():
    text = "\n  one line that is long enough \n"
    found = outcome(LineFilter(np.zeros(0, np.uint64), within_document=True, min_chars=20), text)
    assert (found.text, found.changes) == (text, ())
