from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from llmstack.config.rewards import AnyReward

decode = TypeAdapter(AnyReward).validate_python


def test_defaults():
    http = decode({"kind": "http", "url": "http://127.0.0.1:1"})
    assert (http.path, http.on_failure) == ("/score", "stop")
    assert decode({"kind": "verifier", "check": "command", "command": ["true"]}).command == ("true",)


@pytest.mark.parametrize(
    ("options", "key", "message"),
    [
        ({"kind": "http", "url": "ftp://x"}, "url", "expected a URL"),
        ({"kind": "http", "url": "http://example.org", "api_key_env": "KEY"}, "url", "expected https"),
        ({"kind": "http", "url": "http://127.0.0.1:1", "path": "score"}, "path", "pattern"),
        ({"kind": "verifier", "check": "command"}, "command", "expected a program because `check` is command"),
        ({"kind": "verifier", "check": "python", "command": ["a"]}, "command", "because `check` is python"),
        ({"kind": "verifier", "check": "maths", "wall_seconds": 0.0}, "wall_seconds", "greater than 0"),
    ],
)
def test_a_wrong_option_is_named(options, key, message):
    with pytest.raises(ValidationError, match=message) as error:
        decode(options)
    assert [problem["loc"] for problem in error.value.errors()] == [(key,)]
