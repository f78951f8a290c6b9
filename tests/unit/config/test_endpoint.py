from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.endpoint import EndpointOptions, is_loopback, key_problem, url_problem


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost.example", "0.0.0.0", "10.0.0.1", "128.0.0.1", "example.org", ""])
def test_other_machines(host):
    assert not is_loopback(host)


@pytest.mark.parametrize("url", ["http://127.0.0.1:80/v1", "https://example.org/v1/", "http://[::1]:1/", "http://h"])
def test_urls_that_can_be_used(url):
    assert url_problem(url, has_key=False) == ""


@pytest.mark.parametrize(
    "url", ["host/v1", "ftp://host", "http://", "http://host:x/", "http://[bad/", "http://a b", "http://a..b"]
)
def test_urls_that_cannot(url):
    assert "expected a URL" in url_problem(url, has_key=False)


@pytest.mark.parametrize("url", ["https://me:secret@host/", "https://host/?key=secret", "https://secret@h:x/"])
def test_what_may_be_a_secret_is_not_repeated(url):
    problem = url_problem(url, has_key=False)
    assert "without user, query and fragment" in problem and "secret" not in problem


def test_a_key_goes_in_clear_to_this_machine_alone():
    assert url_problem("http://localhost:1/v1", has_key=True) == ""
    assert url_problem("https://example.org", has_key=True) == ""
    assert "expected https" in url_problem("http://example.org", has_key=True)


def test_keys():
    assert key_problem(None) == key_problem("12345678") == ""
    assert "got one of 7" in key_problem("1234567")
    assert "got one of 0" in key_problem("")
    for key in ("12345678 ", "1234\t5678", "12345678é"):
        assert "got one with blanks" in key_problem(key) and key.strip() not in key_problem(key)


def test_options_point_to_what_is_wrong():
    assert EndpointOptions(url="http://localhost/v1").retries == 5
    with pytest.raises(ValidationError) as error:
        EndpointOptions(url="http://example.org", api_key_env="KEY")
    assert error.value.errors()[0]["loc"] == ("url",)
    for wrong in ({"retries": -1}, {"concurrency": 0}, {"timeout_seconds": 0}, {"api_key_env": "a b"}):
        with pytest.raises(ValidationError):
            EndpointOptions(url="http://localhost/v1", **wrong)
