from __future__ import annotations

import math
import threading
import time

import pytest

from llmstack.errors import StepUndone, UserError
from llmstack.rewards.http import scores_in
from llmstack.rl.rewards_api import score_answers
from llmstack.runtime import http as client
from llmstack.runtime.http import EndpointError
from llmstack.runtime.stopping import REQUESTED
from tests.helpers.chat_server import ChatServer, reset, stall, status
from tests.unit.rewards.batches import batch, make

BATCH = batch(["a", "bb", "ccc"], ["x", None, "z"], prompts=["p", "q", "r"])


def lengths(body):
    return {"scores": [float(len(text)) for text in body["responses"]]}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(client, "FIRST_PAUSE_SECONDS", 0.01)
    with ChatServer(lengths) as running:
        yield running


def reward(server, **options):
    options = {"batch_size": 2, "retries": 0, "concurrency": 1, "timeout_seconds": 5.0} | options
    return make("http", url=server.url, **options)


def test_answers_go_in_requests_of_a_size_and_scores_keep_their_order(server):
    made = reward(server)
    assert made(BATCH) == [1.0, 2.0, 3.0]
    first, second = (seen["body"] for seen in server.seen)
    assert server.seen[0]["path"] == "/v1/score"
    assert first == {"prompts": ["p", "q"], "responses": ["a", "bb"], "answers": ["x", None]}
    assert second == {"prompts": ["r"], "responses": ["ccc"], "answers": ["z"]}
    assert made.metrics() == {"http_unscored": 0.0}


def test_the_key_comes_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("SCORER_KEY", "sk-0123456789")
    reward(server, api_key_env="SCORER_KEY")(BATCH)
    assert server.seen[0]["headers"]["Authorization"] == "Bearer sk-0123456789"
    monkeypatch.delenv("SCORER_KEY")
    with pytest.raises(UserError, match=r"stages\.p\.reward\.api_key_env: expected a key in .* SCORER_KEY"):
        reward(server, api_key_env="SCORER_KEY")


def test_a_failure_is_repeated(server):
    server.faults += [status(503), reset]
    assert reward(server, retries=2)(BATCH) == [1.0, 2.0, 3.0]


def test_what_fails_for_good_is_unscored_and_counted_never_0(server):
    server.faults += [status(500)]
    made = reward(server, on_failure="unscored")
    assert made(BATCH) == [None, None, 3.0]
    assert made.metrics() == {"http_unscored": 2.0}
    assert made(BATCH) == [1.0, 2.0, 3.0] and made.metrics() == {"http_unscored": 0.0}


@pytest.mark.parametrize("mode", ["unscored", "pause", "stop"])
def test_a_refusal_of_these_answers_leaves_them_unscored(server, mode):
    server.faults += [status(413)]
    assert reward(server, on_failure=mode)(BATCH) == [None, None, 3.0]


@pytest.mark.parametrize("mode", ["unscored", "stop"])
def test_a_server_that_is_down_stops_the_run(server, mode):
    server.close()
    with pytest.raises(
        StepUndone, match=r"stages\.p\.reward: expected an answer from .* goes on when the server is back"
    ):
        reward(server, on_failure=mode)(BATCH)


@pytest.mark.parametrize("mode", ["unscored", "pause", "stop"])
def test_a_wrong_key_or_url_is_told_at_once(server, mode):
    server.faults += [status(401), status(401)]
    with pytest.raises(EndpointError, match="status 401"):
        reward(server, on_failure=mode)(BATCH)


def test_a_paused_run_goes_on_when_the_server_is_back(server):
    server.faults += [status(503), status(503), status(503), None]
    made = reward(server, on_failure="pause", pause_seconds=0.01)
    assert made(BATCH) == [1.0, 2.0, 3.0]
    # both requests failed, then the first again; what had its scores was not asked again
    assert [len(seen["body"]["responses"]) for seen in server.seen] == [2, 1, 2, 1, 2]


def test_a_paused_run_can_be_stopped(server):
    server.close()
    threading.Timer(0.2, REQUESTED.set).start()
    started = time.perf_counter()
    try:
        with pytest.raises(StepUndone, match="told to stop while it waited"):
            reward(server, on_failure="pause", pause_seconds=60.0)(BATCH)
    finally:
        REQUESTED.clear()
    assert time.perf_counter() - started < 20


def test_a_server_that_says_nothing_is_down(server):
    server.faults += [stall, stall]
    with pytest.raises(StepUndone, match=r"no answer within 0\.2 s"):
        reward(server, timeout_seconds=0.2)(BATCH)


def test_scores_of_an_answer():
    assert scores_in({"scores": [1, None, math.nan, 2.5]}, 4) == [1.0, None, None, 2.5]
    for wrong in ({}, {"scores": 1}, {"scores": [1]}, {"scores": [1, "2"]}, {"scores": [1, True]},
                  {"scores": [1, math.inf]}):  # fmt: skip
        with pytest.raises(ValueError, match="expected"):
            scores_in(wrong, 2)


def test_a_malformed_answer_is_a_failure(server):
    server.answer = lambda body: {"scores": [1.0]}
    with pytest.raises(StepUndone, match="a list of 2 numbers or nulls, got 1 of them"):
        reward(server)(BATCH)


def test_through_the_common_check(server):
    server.faults += [status(500)]
    scores = score_answers(reward(server, on_failure="unscored"), BATCH, path="stages.p.reward")
    assert scores.scored_B.tolist() == [False, False, True] and scores.num_unscored == 2
