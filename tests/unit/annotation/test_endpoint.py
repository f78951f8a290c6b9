from __future__ import annotations

import pytest

from llmstack.annotation.annotator import Setting
from llmstack.annotation.cache import AnswerCache
from llmstack.annotation.endpoint import EndpointAnnotator, reply_in
from llmstack.annotation.requests import Reply, Request
from llmstack.config.annotation import EndpointConfig
from llmstack.data.records import Message
from llmstack.errors import UserError
from llmstack.runtime.http import Timing
from tests.helpers.chat_server import ChatServer, completion, status


@pytest.fixture
def server():
    with ChatServer(lambda body: f"said {body['messages'][-1]['content']}") as running:
        yield running


@pytest.fixture
def make(server, tmp_path):
    def build(**options):
        config = EndpointConfig(kind="endpoint", url=server.url, model="m", **options)
        timing = Timing(sleep=lambda _: None)
        return EndpointAnnotator(config, Setting("judge", AnswerCache(tmp_path / "c.sqlite"), seed=5, timing=timing))

    return build


def requests(*texts, sample=0):
    return [Request((Message("system", "s"), Message("user", text)), sample) for text in texts]


def test_what_is_sent(make, server):
    judge = make(temperature=0.5, samples=3, max_tokens=9, extra={"top_p": 0.9})
    assert judge.answers(requests("a", sample=2)) == [Reply("said a", "", 10, 3)]
    assert server.seen[0]["path"] == "/v1/chat/completions"
    assert server.seen[0]["body"] == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}],
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 7,
        "top_p": 0.9,
    }


def test_what_is_left_to_the_server_is_not_sent(make, server):
    make(temperature=None, max_tokens=None, send_seed=False).answers(requests("a"))
    assert set(server.seen[0]["body"]) == {"model", "messages"}


def test_samples_are_told_apart_without_a_seed(make, server):
    judge = make(temperature=1.0, samples=2, send_seed=False)
    judge.answers([*requests("a"), *requests("a", sample=1)])
    assert len(server.seen) == 2


def test_a_request_that_is_refused_for_its_own_sake_is_a_problem_of_its_item(make, server):
    server.answer = lambda body: {"error": 1} if "bad" in str(body) else "yes"
    server.faults += [None, status(400, {"error": {"message": "too long"}})]
    judge = make(concurrency=1)
    good, refused, other = judge.answers(requests("a", "long", "b"))
    assert (good.text, other.text) == ("yes", "yes")
    assert refused.text == "" and "refused: " in refused.problem and "too long" in refused.problem
    assert judge.answers(requests("long"))[0].text == "yes"  # it was not kept


def test_a_server_that_refuses_everything_ends_it(make, server):
    server.faults += [status(400, {"error": "no such parameter"})] * 100
    with pytest.raises(UserError, match=r"status 400 .*no such parameter.* 0 of 20 answers of judge"):
        make(concurrency=2).answers(requests(*map(str, range(20))))
    assert len(server.seen) <= 4


def test_a_server_that_has_answered_before_may_refuse_the_rest(make, server):
    make().answers(requests("a"))
    server.faults += [status(400)] * 5
    replies = make().answers(requests("a", *"bcdef"))
    assert [bool(reply.problem) for reply in replies] == [False, True, True, True, True, True]


def test_few_requests_that_are_all_refused_are_their_own_fault(make, server):
    server.faults += [status(413)] * 2
    assert all(reply.problem for reply in make().answers(requests("a", "b")))


@pytest.mark.parametrize("code", [401, 404])
def test_other_refusals_end_it(make, server, code):
    server.faults += [None, status(code)]
    with pytest.raises(UserError, match=f"status {code}.* 1 of 3 answers of judge"):
        make(concurrency=1).answers(requests("a", "b", "c"))


def test_a_server_that_speaks_something_else_is_told(make, server):
    server.answer = lambda body: {"result": "yes"}
    with pytest.raises(UserError, match=r"expected choices\[0\].message, got result\) after 2 attempts"):
        make(retries=1).answers(requests("a"))


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (completion("x"), Reply("x", "", 10, 3)),
        (completion("x", finish="length"), Reply("x", "cut off at the limit of tokens", 10, 3)),
        (completion(None, finish="tool_calls"), Reply("", "no text (finish_reason tool_calls)", 10, 3)),
        (completion("", finish="content_filter"), Reply("", "held back by the server's content filter", 10, 3)),
        (completion("x") | {"usage": None}, Reply("x")),
        (completion("a\ud83d") | {"usage": None}, Reply("a\ufffd")),
        (completion("a\U0001f600\u2028") | {"usage": None}, Reply("a\U0001f600\u2028")),
        (completion("x", prompt_tokens=-1, completion_tokens="3"), Reply("x")),
        ({"choices": [{"message": {"content": "x"}}]}, Reply("x")),
    ],
)
def test_replies(answer, reply):
    assert reply_in(answer) == reply


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "got nothing"),
        ({"choices": []}, "got choices"),
        ({"error": {"message": "overloaded"}}, "overloaded"),
        ({"choices": [{"message": None}]}, "got choices"),
        ({"choices": [{"message": {"content": [1]}}]}, "expected a text .* got a list"),
        ({"choices": {"0": 1}}, "got choices"),
    ],
)
def test_what_is_no_chat_completion(answer, message):
    with pytest.raises(ValueError, match=message):
        reply_in(answer)
