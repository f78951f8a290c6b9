from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from llmstack.config.data import CallableConfig
from llmstack.data.function import CallableSource
from llmstack.data.records import PromptRecord, Record, ResponseRecord, TextRecord
from llmstack.errors import DataError, UserError

MODULE = """
from llmstack.data.records import PromptRecord, TextRecord
from llmstack.errors import DataError

def texts(count, prefix="t"):
    for number in range(count):
        yield {"body": f"{prefix}{number}"}

def ready():
    return [TextRecord("a"), PromptRecord("p", where="there")]

def both():
    yield {"text": "a"}
    yield TextRecord("b", where="there")

def fails(at):
    yield {"text": "a"}
    raise KeyError("lost")

def refuses():
    raise DataError("my data: expected luck, got none. Try again.")
    yield

def number():
    return 3

def odd():
    yield {"text": "a"}
    yield "b"
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch) -> Path:
    path = tmp_path / "rows_of_mine.py"
    path.write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield path
    sys.modules.pop("rows_of_mine", None)


def source(name: str, **options: Any) -> CallableSource:
    return CallableSource(CallableConfig(source="callable", function=f"rows_of_mine:{name}", **options), seed=0)


def records(name: str, **options: Any) -> list[Record]:
    return list(source(name, **options).records())


def test_mappings_become_records_of_a_kind() -> None:
    found = records("texts", arguments={"count": 2, "prefix": "x"}, record="text", fields={"text": "body"})
    assert found == [TextRecord("x0"), TextRecord("x1")]
    assert found[1].where == "rows_of_mine:texts:2"
    mapped = {"prompt": "{body}?", "response": "body"}
    assert records("texts", arguments={"count": 1}, record="prompt_response", fields=mapped) == [
        ResponseRecord("t0?", "t0")
    ]


def test_records_are_handed_on() -> None:
    found = records("ready")
    assert found == [TextRecord("a"), PromptRecord("p")]
    assert [record.where for record in found] == ["rows_of_mine:ready:1", "there"]
    assert records("both", record="text") == [TextRecord("a"), TextRecord("b")]


def test_a_function_is_called_anew_each_time() -> None:
    found = source("texts", arguments={"count": 3}, record="text", fields={"text": "body"})
    assert list(found.records()) == list(found.records())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "texts",
            {"record": "text"},
            r"^rows_of_mine:texts:1: expected records, got TypeError \(.*'count'\) .*Mend it",
        ),
        (
            "texts",
            {"record": "text", "arguments": {"count": 1}},
            "^rows_of_mine:texts:1: expected field 'text', got fi",
        ),
        ("texts", {"record": "text", "arguments": {"count": 0}}, "^rows_of_mine:texts: expected at least one record"),
        (
            "fails",
            {"record": "text", "arguments": {"at": 1}},
            r":fails:2: .* got KeyError \('lost'\) at .*of_mine\.py:1",
        ),
        ("refuses", {"record": "text"}, "^my data: expected luck, got none"),
        ("number", {}, r"number:1: expected records, got TypeError \('int' object is not iterable\)"),
        ("odd", {"record": "text"}, "odd:2: expected a record or a mapping, got str"),
        ("both", {}, r"both:1: expected a record \(because `record` is null\), got dict"),
    ],
)
def test_what_goes_wrong_names_the_function(name: str, options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        records(name, **options)


def test_a_function_must_be_there() -> None:
    with pytest.raises(UserError, match="rows_of_mine:text: expected a function 'text' .* Did you mean `texts`"):
        source("text")


def test_a_fingerprint_follows_source_and_arguments(module: Path) -> None:
    before = source("texts", arguments={"count": 1}).fingerprint()
    assert source("texts", arguments={"count": 1}).fingerprint() == before
    assert source("texts", arguments={"count": 2}).fingerprint() != before
    assert source("ready", arguments={"count": 1}).fingerprint() != before
    module.write_text(MODULE + "\n# changed\n")
    assert source("texts", arguments={"count": 1}).fingerprint() != before


def test_a_function_without_a_source_file_is_refused() -> None:
    found = CallableSource(CallableConfig(source="callable", function="builtins:print"), seed=0)
    with pytest.raises(DataError, match="builtins:print: expected a function of a source file"):
        found.fingerprint()
