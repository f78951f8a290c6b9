from __future__ import annotations

import pytest

from llmstack.data.field_map import FieldMap
from llmstack.errors import DataError


def test_columns_are_what_may_be_read() -> None:
    fields = FieldMap({"prompt": "{q.text}: {context}", "response": "reply", "tools": "meta.tools"})
    assert fields.columns(("prompt", "response", "tools", "margin")) == {
        *("q.text", "q", "context", "reply", "meta.tools", "meta", "margin"),
    }


def test_unknown_names_are_refused() -> None:
    FieldMap({"text": "body"}).check(("text",), ("text",), used_for="x")
    with pytest.raises(DataError, match="fields: expected names among text for record 'text', got body, txt"):
        FieldMap({"txt": "a", "body": "b"}).check(("text",), ("text",), used_for="record 'text'")


def test_a_template_makes_text_alone() -> None:
    with pytest.raises(DataError, match=r"fields\.margin: expected the name of a field, got the template '\{a\}\{b\}'"):
        FieldMap({"margin": "{a}{b}"}).check(("prompt", "margin"), ("prompt",), used_for="x")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{a", "expected '}' before end of string"),
        ("a}", "Single '}' encountered"),
        ("{}", "more than a name between braces"),
        ("{ }", "more than a name"),
        ("{a!r}", "more than a name"),
        ("{a:>3}", "more than a name"),
        ("{a[0]}", "more than a name"),
        ("{{a}}", "no field in it"),
    ],
)
def test_other_templates_are_refused(template: str, reason: str) -> None:
    with pytest.raises(DataError, match=rf"fields\.text: expected text with names of fields .* got .*\({reason}"):
        FieldMap({"text": template})
