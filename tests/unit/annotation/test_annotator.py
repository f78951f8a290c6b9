from __future__ import annotations

import pytest

from llmstack.annotation.requests import Reply, Request
from llmstack.data.records import Message
from llmstack.errors import UserError
from tests.helpers.annotation import Scripted


def request(text, sample=0):
    return Request((Message("user", text),), sample)


def echo(request):
    return f"{request.messages[0].content}/{request.sample}"


def test_nothing_is_asked_twice(tmp_path):
    first = Scripted(tmp_path, echo)
    requests = [request("a"), request("b"), request("a"), request("a", 1)]
    assert [reply.text for reply in first.answers(requests)] == ["a/0", "b/0", "a/0", "a/1"]
    assert len(first.asked) == 3
    assert [reply.text for reply in first.answers([request("b"), request("c")])] == ["b/0", "c/0"]
    assert len(first.asked) == 4
    second = Scripted(tmp_path, echo)
    assert [reply.text for reply in second.answers(requests)] == ["a/0", "b/0", "a/0", "a/1"]
    assert second.asked == []
    assert len(Scripted(tmp_path, echo, name="other").answers(requests)) == 4


def test_what_it_took_is_counted_by_answer(tmp_path):
    first = Scripted(tmp_path, echo)
    first.answers([request("a"), request("b"), request("a")])
    assert (first.usage.new, first.usage.kept) == (2, 0)
    assert (first.usage.input_tokens, first.usage.new_output_tokens) == (14, 4)
    second = Scripted(tmp_path, lambda request: Reply("x"))
    second.answers([request("a"), request("c")])
    assert (second.usage.new, second.usage.kept, second.usage.untold) == (1, 1, 1)
    assert (second.usage.input_tokens, second.usage.new_input_tokens) == (7, 0)


def test_answers_from_before_alone(tmp_path):
    first = Scripted(tmp_path, echo)
    first.answers([request("a")])
    assert first.answers([request("b"), request("a")], kept_only=True) == [None, Reply("a/0", "", 7, 2)]
    assert len(first.asked) == 1


def test_how_far_it_came_is_told(tmp_path):
    def answer(request):
        if request.messages[0].content == "c":
            raise UserError("the server is away.")
        return "x"

    first = Scripted(tmp_path, answer)
    first.answers([request("a")])
    with pytest.raises(UserError, match=r"the server is away. 2 of 4 answers of scripted are in .*cache.sqlite; the"):
        first.answers([request(text) for text in "abcd"])
    assert first.answers([request("b")])[0].text == "x"
    assert len(first.asked) == 3
