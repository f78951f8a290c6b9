from __future__ import annotations

import pytest

from llmstack.annotation.items import Item
from llmstack.annotation.requests import TEMPLATES, Phrasing, Reply, Unreadable, fill
from llmstack.config.annotation import TEMPLATE_FIELDS, PromptConfig, template_problem
from llmstack.evaluation.extract import Extractor

PAIR = Item("Which {colour}?", ("red", "blue {prompt}"), where="f:3")


def phrasing(task, *, template=None, system=None, **options):
    return Phrasing(task, PromptConfig(system=system, template=template), **options)


@pytest.mark.parametrize("task", TEMPLATES)
def test_the_tasks_own_templates_are_such_as_a_user_may_write(task):
    assert template_problem(TEMPLATES[task], *TEMPLATE_FIELDS[task]) == ""


def test_values_are_put_in_once():
    assert fill("{a} {{a}} {b}", {"a": "{b}", "b": "}{a"}) == "{b} {a} }{a"


def test_an_item_becomes_a_conversation():
    request = phrasing("preference", system="Be fair.", template="{prompt}|{answer_a}|{answer_b}").request(
        PAIR, sample=2
    )
    assert [(turn.role, turn.content) for turn in request.messages] == [
        ("system", "Be fair."),
        ("user", "Which {colour}?|red|blue {prompt}"),
    ]
    assert (request.sample, request.where) == (2, "f:3")


def test_answers_swap_places():
    judge = phrasing("preference", template="{prompt}|{answer_a}|{answer_b}")
    assert judge.orders == (False, True)
    assert judge.request(PAIR, swapped=True).messages[0].content == "Which {colour}?|blue {prompt}|red"
    assert [judge.read(Reply("Label: A"), swapped=swapped) for swapped in judge.orders] == ["a", "b"]
    assert [judge.read(Reply("Label: B"), swapped=swapped) for swapped in judge.orders] == ["b", "a"]


def test_classes_are_named_in_the_question():
    request = phrasing("class", labels=("good", "bad")).request(Item("x"))
    assert "one of these labels: good, bad." in request.messages[0].content


@pytest.mark.parametrize(
    "text", ["good", " good \n", "Label: good", "I think so.\n\nLabel: good\n", "Label: bad\nno:\nLabel:good"]
)
def test_the_label_is_on_the_last_line(text):
    assert phrasing("class", labels=("good", "bad")).read(Reply(text)) == "good"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply("Good"), "expected one of good, bad on the last line, got 'Good'"),
        (Reply("good or bad"), "got 'good or bad'"),
        (Reply("Label: good\nThat is all."), "got 'That is all.'"),
        (Reply("Label:"), "got ''"),
        (Reply("x" * 50), r"got 'x{37}\.\.\.'"),
        (Reply("  \n"), "expected an answer, got an empty one"),
        (Reply("good", "cut off at the limit of tokens"), "cut off"),
    ],
)
def test_anything_else_is_no_label(reply, message):
    with pytest.raises(Unreadable, match=message):
        phrasing("class", labels=("good", "bad")).read(reply)


def test_a_response_is_the_whole_answer():
    assert phrasing("response").read(Reply(" Four.\nSurely. ")) == "Four.\nSurely."
    needs = phrasing("response", extractor=Extractor())
    assert needs.read(Reply("It is 4")) == "It is 4"
    with pytest.raises(Unreadable, match="expected a final answer in it, got none"):
        needs.read(Reply("It is four"))


def test_asking_again_shows_what_was_wrong():
    judge = phrasing("class", labels=("good", "bad"))
    request = judge.request(Item("x", where="f:1"), sample=1)
    again = judge.again(request, Reply("Good!"), "expected one of good, bad")
    assert again.messages[:-2] == request.messages
    assert (again.messages[-2].role, again.messages[-2].content) == ("assistant", "Good!")
    assert "expected one of good, bad" in again.messages[-1].content
    assert (again.sample, again.where) == (1, "f:1")


def test_some_questions_are_not_put_again():
    assert phrasing("class", labels=("a", "b")).again(None, Reply(" "), "empty") is None
    assert phrasing("response").again(None, Reply("x", "cut off"), "cut off") is None
