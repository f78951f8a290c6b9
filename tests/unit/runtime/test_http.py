from __future__ import annotations

import email.utils
import logging
import threading
import time

import pytest

from llmstack.errors import UserError
from llmstack.runtime import http
from llmstack.runtime.http import EndpointError, JsonClient, Limits, Timing, read_key
from tests.helpers.chat_server import ChatServer, FakeTime, drip, malformed, reset, stall, status

KEY = "sk-secret-0123456789"


@pytest.fixture
def server():
    with ChatServer(lambda body: {"echo": body}) as running:
        yield running


@pytest.fixture
def fake():
    return FakeTime()


def client(server, fake=None, *, key=None, **limits):
    timing = Timing(fake.clock, lambda: 1_700_000_000.0, fake.sleep) if fake else None
    return JsonClient(server.url, limits=Limits(**limits), key=key, timing=timing, seed=3)


def test_an_object_goes_out_and_one_comes_back(server):
    with client(server) as asking:
        assert asking.post("/chat/completions", {"text": "Grüße"}) == {"echo": {"text": "Grüße"}}
    assert server.seen[0]["path"] == "/v1/chat/completions"
    assert "Authorization" not in server.seen[0]["headers"]


@pytest.mark.parametrize("fault", [status(500), status(503), status(429), status(408), malformed, reset])
def test_what_passes_is_tried_again(server, fake, fault):
    server.faults += [fault, fault]
    with client(server, fake) as asking:
        assert asking.post("x", {"a": 1}) == {"echo": {"a": 1}}
    assert len(server.seen) == 3
    assert len(fake.slept) == 2
    assert 0 <= fake.slept[0] <= 0.5 and 0 <= fake.slept[1] <= 1.0
    assert fake.slept != [0.0, 0.0]


@pytest.mark.parametrize("fault", [stall, drip])
def test_an_attempt_that_takes_too_long_is_tried_again(server, fault):
    server.faults += [fault]
    started = time.monotonic()
    limits = Limits(timeout_seconds=0.2)
    with JsonClient(server.url, limits=limits, timing=Timing(sleep=lambda _: None)) as asking:
        assert asking.post("x", {}) == {"echo": {}}
    assert 0.2 <= time.monotonic() - started < 5


def test_pauses_grow_to_a_bound_and_are_seeded(server):
    slept = []
    for _ in range(2):
        fake = FakeTime()
        server.faults += [status(500)] * 10
        with client(server, fake, retries=10) as asking:
            asking.post("x", {})
        slept.append(fake.slept)
    assert slept[0] == slept[1]
    bounds = [min(http.LONGEST_PAUSE_SECONDS, 0.5 * 2**n) for n in range(10)]
    assert all(0 <= pause <= bound for pause, bound in zip(slept[0], bounds, strict=True))
    assert max(slept[0][6:]) > 8


@pytest.mark.parametrize("value", ["7", email.utils.formatdate(1_700_000_007, usegmt=True)], ids=["seconds", "date"])
def test_a_wait_the_server_asks_for_is_kept(server, fake, value):
    server.faults += [status(429, Retry_After=value)]
    with client(server, fake) as asking:
        asking.post("x", {})
    assert fake.slept == [7.0]


@pytest.mark.parametrize("value", ["soon", "-5", "Mon, 99 Foo 2023"])
def test_an_odd_wait_is_none(server, fake, value):
    server.faults += [status(503, Retry_After=value)]
    with client(server, fake) as asking:
        asking.post("x", {})
    assert sum(fake.slept) <= 0.5


def test_a_long_wait_ends_it(server, fake):
    server.faults += [status(429, Retry_After="3600")]
    with client(server, fake) as asking, pytest.raises(EndpointError, match="a request to wait 3600 s"):
        asking.post("x", {})
    assert (len(server.seen), fake.slept) == (1, [])


@pytest.mark.parametrize("code", [400, 401, 402, 403, 404, 413, 422])
def test_a_refusal_ends_it_at_once(server, fake, code):
    server.faults += [status(code, {"error": {"message": "not this\nway"}})]
    with client(server, fake) as asking, pytest.raises(EndpointError, match=f"status {code} .*not this way") as error:
        asking.post("x", {})
    assert error.value.status == code
    assert (len(server.seen), fake.slept) == (1, [])


def test_a_redirect_is_not_followed(server, fake):
    server.faults += [status(307, Location="http://elsewhere.invalid/")]
    with client(server, fake) as asking, pytest.raises(EndpointError, match="to http://elsewhere.invalid/"):
        asking.post("x", {})
    assert len(server.seen) == 1


def test_the_error_says_where_what_and_how_often(server, fake):
    server.faults += [status(502, b"<html>bad\x00gateway</html>")] * 3
    with client(server, fake, retries=2) as asking, pytest.raises(EndpointError) as error:
        asking.post("/x", {})
    text = str(error.value)
    assert text.startswith(f"endpoint: expected an answer from {server.url}/x, got status 502 Bad Gateway (<html>bad?")
    assert "after 3 attempts" in text and "\n" not in text
    assert error.value.status == 502


def test_nobody_there(fake):
    with ChatServer() as server:
        pass
    with client(server, fake, retries=1) as asking, pytest.raises(EndpointError, match="refused.* after 2 attempts"):
        asking.post("x", {})


def test_an_answer_may_be_checked(server, fake):
    tries = []

    def check(answer):
        tries.append(answer)
        if len(tries) < 2:
            raise ValueError("no choices")

    with client(server, fake, retries=1) as asking:
        assert asking.post("x", {}, check=check) == {"echo": {}}
        with pytest.raises(EndpointError, match=r"not what was asked for \(no choices\) after 2 attempts"):
            tries.clear()
            asking.post("x", {}, check=lambda answer: check({tries.clear(): 0}))


@pytest.mark.parametrize("answer", [b"[1]", b"3", b"", b"[" * 100_000])
def test_what_is_no_object_is_refused(server, fake, answer):
    server.faults += [status(200, answer)] * 2
    with client(server, fake, retries=1) as asking, pytest.raises(EndpointError, match="JSON"):
        asking.post("x", {})


def test_an_answer_without_an_end_is_refused(server, fake, monkeypatch):
    monkeypatch.setattr(http, "LARGEST_ANSWER_BYTES", 1 << 20)
    server.faults += [status(200, b" " * (2 << 20))]
    with client(server, fake) as asking, pytest.raises(EndpointError, match="more than 1 MB"):
        asking.post("x", {})


def test_the_rate_is_kept_by_all_threads_together(server, fake):
    with client(server, fake, requests_per_minute=30, concurrency=3) as asking:
        assert sorted(index for index, _ in asking.post_all("x", [{}] * 5)) == [0, 1, 2, 3, 4]
    assert fake.now - 1000.0 >= 4 * 2.0  # five starts, two seconds apart


def test_a_hold_is_kept_by_the_next_request_too(server, fake):
    server.faults += [status(429, Retry_After="9")]
    with client(server, fake, retries=0) as asking:
        with pytest.raises(EndpointError):
            asking.post("x", {})
    server.faults += [status(429, Retry_After="9")]
    with client(server, fake) as asking:
        asking.post("x", {})
        asking.post("x", {})
    assert fake.slept == [9.0]


def test_many_objects_come_back_with_their_places(server):
    with client(server) as asking:
        found = dict(asking.post_all("x", [{"n": n} for n in range(20)]))
    assert found == {n: {"echo": {"n": n}} for n in range(20)}


def test_what_was_answered_before_a_failure_is_handed_out(server):
    server.dies_after = 5
    found = []
    limits = Limits(retries=2, concurrency=2)
    with JsonClient(server.url, limits=limits, timing=Timing(sleep=lambda _: None)) as asking:
        with pytest.raises(EndpointError):
            found.extend(index for index, _ in asking.post_all("x", [{"n": n} for n in range(50)]))
    assert len(found) == 5
    assert len(server.seen) <= 5 + 2 * 3


def test_a_stop_ends_a_wait(server):
    server.faults += [status(429, Retry_After="200")]
    with client(server) as asking:
        started = time.monotonic()
        stopper = threading.Timer(0.5, asking.stop)
        stopper.start()
        with pytest.raises(EndpointError, match="a stop, because another request failed"):
            asking.post("x", {})
        stopper.join()
    assert time.monotonic() - started < 60


def test_the_key_is_sent_and_never_shown(server, fake, caplog):
    caplog.set_level(logging.DEBUG)
    with client(server, fake, key=KEY, retries=0) as asking:
        assert asking.post("x", {"said": KEY, KEY: [KEY]}) == {"echo": {"said": "[key]", "[key]": ["[key]"]}}
        server.faults += [status(401, {"error": {"message": f"wrong key {KEY}"}})]
        with pytest.raises(EndpointError, match=r"wrong key \[key\]") as error:
            asking.post("x", {})
        server.faults += [status(500, f"<{KEY}>".encode())]
        with pytest.raises(EndpointError, match=r"<\[key\]>"):
            asking.post("x", {})
        server.faults += [status(307, Location=f"http://x/{KEY}")]
        with pytest.raises(EndpointError, match=r"http://x/\[key\]"):
            asking.post("x", {})
        with pytest.raises(EndpointError, match=r"\[key\]"):
            asking.post("x", {}, check=lambda _: (_ for _ in ()).throw(ValueError(KEY)))
    assert server.seen[0]["headers"]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in str(error.value) + repr(error.value) + caplog.text


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        ("ftp://host/v1", None, "Write it with http:// or https://"),
        ("http://\u2603.x/v1", None, "expected a URL"),
        ("http://host/v1", KEY, "expected https because a key is sent"),
        ("https://host/v1", "short", "8 or more printable ASCII characters, got one of 5"),
    ],
)
def test_a_url_or_key_that_cannot_be_used(url, key, message):
    with pytest.raises(UserError, match=f"endpoint: .*{message}") as error:
        JsonClient(url, key=key)
    assert key is None or key not in str(error.value)


def test_no_proxy_between_programs_of_one_machine(server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with client(server, retries=0) as asking:
        assert asking.post("x", {}) == {"echo": {}}


def test_a_proxy_towards_the_world_outside(server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", server.url)
    with JsonClient("http://elsewhere.invalid/v1", limits=Limits(retries=0)) as asking:
        asking.post("x", {})
    assert server.seen[0]["path"] == "http://elsewhere.invalid/v1/x"


def test_a_key_from_the_environment(monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    assert read_key("MY_KEY", where="here") == KEY
    assert read_key(None, where="here") is None
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(UserError, match=r"here: expected a key in the environment variable MY_KEY, got none"):
        read_key("MY_KEY", where="here")


@pytest.mark.parametrize("value", ["abc\ndefghi", " padded-key-1", "schlüssel-12345"])
def test_a_key_that_is_none_is_not_shown(monkeypatch, value):
    monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(UserError, match=r"here \(MY_KEY\): expected a key") as error:
        read_key("MY_KEY", where="here")
    assert value.strip() not in str(error.value)
