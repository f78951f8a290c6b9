from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.evaluation.answers import AnswerOptions, Writer
from llmstack.evaluation.exact_match import exact_match
from llmstack.evaluation.extract import Extractor
from llmstack.evaluation.pass_at_k import pass_at_k
from llmstack.evaluation.questions import Asking, Question
from tests.tolerances import F64_ATOL

GREEDY = AnswerOptions(max_new_tokens=6, temperature=0.0, batch_rows=4)
ANYTHING = Extractor(r"(?s).*\S")
"""The whole answer is the final one."""


def questions(answers):
    return [Question(text, answer, where=f"a:{text}") for text, answer in zip(("red", "blue"), answers, strict=True)]


def written(language, options):
    prompts = [language.tokenizer.encode(text) for text in ("red", "blue")]
    return Writer(language, options).write(prompts, wheres=["", ""])


def test_a_right_answer_counts_and_a_wrong_one_does_not(language):
    (first,), (second,) = written(language, GREEDY)
    report = exact_match(
        language, questions([first.text, "no"]), GREEDY, asking=Asking(), extractor=Extractor("(?s).+")
    )
    assert report.numbers["accuracy"] == 0.5
    assert "pass@1" not in report.numbers
    assert [row["right"] for row in report.rows] == [[True], [False]]
    assert [row["responses"] for row in report.rows] == [[first.text], [second.text]]
    assert report.numbers["finished_ratio"] == np.mean([first.finished, second.finished])


def test_several_samples_give_pass_at_k(language):
    options = AnswerOptions(max_new_tokens=2, temperature=1.0, num_samples=5, batch_rows=16, seed=2)
    first, second = written(language, options)
    known = [first[0].text, second[1].text]
    right = [sum(a.text.strip() == k.strip() for a in found) for found, k in zip((first, second), known, strict=True)]
    assert 0 < min(right) and max(right) < 5
    report = exact_match(language, questions(known), options, asking=Asking(), extractor=Extractor("(?s).+"))
    assert report.numbers["accuracy"] == sum(right) / 10
    for k in (1, 2, 4, 5):
        expected = np.mean([pass_at_k(5, count, k) for count in right])
        np.testing.assert_allclose(report.numbers[f"pass@{k}"], expected, rtol=0, atol=F64_ATOL)
    assert [name for name in report.numbers if name.startswith("pass")] == ["pass@1", "pass@2", "pass@4", "pass@5"]


def test_an_answer_in_which_nothing_is_found_is_wrong(language):
    report = exact_match(language, questions(["1", "2"]), GREEDY, asking=Asking(), extractor=Extractor("never there"))
    assert (report.numbers["accuracy"], report.numbers["answered_ratio"]) == (0.0, 0.0)
    assert [row["found"] for row in report.rows] == [[None], [None]]


def test_a_question_beyond_the_context_is_named(language):
    with pytest.raises(UserError, match="b:1: expected at most 58 tokens"):
        exact_match(language, [Question("white " * 80, "1", where="b:1")], GREEDY, asking=Asking(), extractor=ANYTHING)
