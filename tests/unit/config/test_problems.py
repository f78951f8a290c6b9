from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from llmstack.config.base import Strict
from llmstack.config.problems import problems_of
from llmstack.config.provenance import Origins


class Inner(Strict):
    rate: float = Field(gt=0, le=1.5)
    """How fast. Twice."""


class Outer(Strict):
    inner: Inner
    count: int = Field(default=2, ge=2, multiple_of=2)
    mode: Literal["slow", "fast"] = "slow"
    names: list[str] = Field(default_factory=list, max_length=2)
    code: Annotated[str, Field(max_length=1)] = "a"
    table: dict[str, int] = Field(default_factory=dict)


def messages(tree: object, origins: Origins | None = None) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(tree)
    problems = problems_of(caught.value, Outer, tree, origins or Origins())
    return {problem.path: problem.message for problem in problems}


GOOD = {"inner": {"rate": 1.0}}


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"inner": {"rate": 0}}, "inner.rate", "expected a number greater than 0, got 0. Raise it."),
        ({"inner": {"rate": 2.0}}, "inner.rate", "expected a number of at most 1.5, got 2.0. Lower it."),
        ({"inner": {"rate": "1"}}, "inner.rate", "expected a number, got '1'. Write digits without quotes, e.g. 0.1."),
        ({"inner": {}}, "inner.rate", "expected a value (How fast. Twice), got nothing. Add `rate:`."),
        ({"inner": 5}, "inner", "expected a mapping, got 5. Write `key: value` lines below it."),
        ({"inner": {"rat": 1, "rate": 1}}, "inner.rat", "expected a known key (rate), got 'rat'. Did you mean `rate`?"),
        (
            {"zzz": 1},
            "zzz",
            "expected a known key (inner, count, mode, names, code, table), got 'zzz'. Remove it, or look at",
        ),
        ({"count": 3}, "count", "expected a multiple of 2, got 3. Round it."),
        ({"mode": "fsat"}, "mode", "expected 'slow' or 'fast', got 'fsat'. Did you mean `fast`?"),
        ({"mode": 9}, "mode", "expected 'slow' or 'fast', got 9. Write one of these."),
        ({"names": ["a", "b", "c"]}, "names", "expected 2 or fewer entries, got ['a', 'b', 'c']. Remove some."),
        ({"names": "a"}, "names", "expected a list, got 'a'. Write [a, b]."),
        ({"names": [1]}, "names.0", "expected a text, got 1. Write a text; put quotes around digits."),
        ({"table": [1]}, "table", "expected a mapping, got [1]. Write `key: value` lines below it."),
        ({"table": {1: 2}}, "table.1", "expected a text, got 1. Write a text; put quotes around digits."),
        (
            {"code": "ab"},
            "code",
            "expected a valid value, got 'ab': String should have at most 1 character. Correct it.",
        ),
    ],
)
def test_one_form_for_every_error(change, path, message):
    found = messages({**GOOD, **change})
    assert set(found) == {path}
    assert found[path].startswith(message)


def test_long_values_are_cut():
    assert messages({**GOOD, "count": "x" * 200})["count"].count("x") < 80


def test_a_problem_says_where_the_value_came_from():
    origins = Origins()
    origins.add_override("inner.rate", 0)
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"inner": {"rate": 0}})
    (problem,) = problems_of(caught.value, Outer, {"inner": {"rate": 0}}, origins)
    assert str(problem) == "inner.rate: expected a number greater than 0, got 0. Raise it. (command line)"


def test_a_misspelt_parent_on_the_command_line_is_named_instead_of_its_missing_keys():
    class Root(Strict):
        parts: dict[str, Inner]

    origins = Origins()
    origins.add_override("parts.fisrt.other", 1)
    tree = {"parts": {"first": {"rate": 1}, "fisrt": {}}}
    with pytest.raises(ValidationError) as caught:
        Root.model_validate(tree)
    (problem,) = problems_of(caught.value, Root, tree, origins)
    assert problem.path == "parts.fisrt"
    assert problem.message == "expected an existing key (first), got 'fisrt'. Did you mean `first`?"


def test_a_list_with_a_wrong_entry_is_not_also_called_too_short():
    class Lists(Strict):
        rates: tuple[Inner, ...] = Field(min_length=2)

    def found(*entries: object) -> list[str]:
        tree = {"rates": list(entries)}
        with pytest.raises(ValidationError) as caught:
            Lists.model_validate(tree)
        return [problem.path for problem in problems_of(caught.value, Lists, tree, Origins())]

    assert found({"rate": 1.0}, {"rate": 0}) == ["rates.1.rate"]
    assert found({"rate": 0}) == ["rates.0.rate", "rates"]
    assert found() == ["rates"]
