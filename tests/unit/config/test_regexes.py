from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from llmstack.config.regexes import RegexText


def test_a_pattern_is_checked_when_it_is_read():
    decode = TypeAdapter(RegexText).validate_python
    assert decode(r"a(?P<x>b)") == r"a(?P<x>b)"
    with pytest.raises(ValidationError, match=r"expected a regular expression, got '\(a' \(.*\)\. Correct it"):
        decode("(a")
