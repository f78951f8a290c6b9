from __future__ import annotations

import pytest
from pydantic import ValidationError, model_validator

from llmstack.config.base import Strict, complaint, raise_at, reject


class Sample(Strict):
    count: int = 1
    """How many."""
    pair: tuple[int, int] = (1, 2)
    triple: tuple[int, ...] | None = None
    names: list[str] = []

    @model_validator(mode="after")
    def _check(self):
        reject(self, {"count": "expected no 7, got 7. Write 8."} if self.count == 7 else {})
        return self


def test_a_field_takes_its_docstring_as_description():
    assert Sample.model_fields["count"].description == "How many."


@pytest.mark.parametrize("value", ["1", 1.0, True])
def test_nothing_is_converted(value):
    with pytest.raises(ValidationError):
        Sample(count=value)


def test_unknown_keys_are_refused():
    with pytest.raises(ValidationError, match="Extra inputs"):
        Sample.model_validate({"cuont": 1})


def test_a_list_fills_a_tuple_and_stays_a_list_elsewhere():
    sample = Sample.model_validate({"pair": [3, 4], "triple": [5, 6, 7], "names": ["a"]})
    assert (sample.pair, sample.triple, sample.names) == ((3, 4), (5, 6, 7), ["a"])
    assert Sample.model_validate({"triple": None}).triple is None


def test_it_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        Sample().count = 2


def test_a_rejection_stands_at_its_key():
    with pytest.raises(ValidationError) as caught:
        Sample(count=7)
    (error,) = caught.value.errors()
    assert (error["loc"], error["msg"]) == (("count",), "expected no 7, got 7. Write 8.")


def test_several_problems_are_raised_at_once():
    with pytest.raises(ValidationError) as caught:
        raise_at("T", {("a",): "first {x}", ("b", "c"): "second"}, None)
    assert [(error["loc"], error["msg"]) for error in caught.value.errors()] == [
        (("a",), "first {x}"),
        (("b", "c"), "second"),
    ]


def test_a_complaint_is_shown_as_it_is():
    assert complaint("expected {a}").message() == "expected {a}"
