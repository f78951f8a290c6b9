from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from llmstack.config.base import Strict
from llmstack.config.named import IfKey, NameIn, Registered
from llmstack.registry import Registry


class Animal(Strict):
    kind: str


class Dog(Animal):
    barks: int


REGISTRY: Registry[object] = Registry("animal kind")
REGISTRY.register("dog", config=Dog)(object())
REGISTRY.register("fish")(object())
ANY = TypeAdapter(Annotated[Animal, Registered(REGISTRY, "kind")])
NAME = TypeAdapter(Annotated[str, NameIn(REGISTRY)])


def test_the_name_picks_the_class():
    assert ANY.validate_python({"kind": "dog", "barks": 2}) == Dog(kind="dog", barks=2)


def test_a_name_without_own_options_takes_the_base():
    assert type(ANY.validate_python({"kind": "fish"})) is Animal


def test_a_decoded_instance_passes():
    dog = Dog(kind="dog", barks=2)
    assert ANY.validate_python(dog) is dog


def test_an_entry_added_later_counts():
    REGISTRY.register("cat", config=Animal)(object())
    assert ANY.validate_python({"kind": "cat"}).kind == "cat"


@pytest.mark.parametrize(
    ("value", "location", "words"),
    [
        ({"kind": "dgo"}, ("kind",), "Did you mean `dog`?"),
        ({"kind": ["dog"]}, ("kind",), "expected an animal kind"),
        ({}, ("kind",), "got nothing. Add `kind:`."),
        ("dog", (), "expected a mapping with the key `kind`, got 'dog'"),
        ({"kind": "dog"}, ("barks",), "Field required"),
        ({"kind": "dog", "barks": 1, "tail": 1}, ("tail",), "Extra inputs"),
    ],
)
def test_a_problem_keeps_its_own_location(value, location, words):
    with pytest.raises(ValidationError) as caught:
        ANY.validate_python(value)
    (error,) = caught.value.errors()
    assert error["loc"] == location
    assert words in error["msg"]


def test_options_that_do_not_extend_the_base_are_refused():
    class Stone(Strict):
        kind: str

    REGISTRY.register("stone", config=Stone)(object())
    with pytest.raises(ValidationError, match="to be a subclass of Animal, got Stone"):
        ANY.validate_python({"kind": "stone"})


def test_a_name_must_be_registered():
    assert NAME.validate_python("dog") == "dog"
    with pytest.raises(ValidationError, match="Did you mean `dog`"):
        NAME.validate_python("dogg")
    with pytest.raises(ValidationError, match="got 3"):
        NAME.validate_python(3)


def test_the_json_schema_follows_the_registry():
    registry: Registry[object] = Registry("animal kind")
    registry.register("dog", config=Dog)(object())
    schema = TypeAdapter(Annotated[Animal, Registered(registry, "kind")]).json_schema()
    assert schema["properties"]["kind"]["enum"] == ["dog"]
    (rule,) = schema["allOf"]
    assert rule["if"]["properties"] == {"kind": {"const": "dog"}}
    assert set(rule["then"]["properties"]) == {"kind", "barks"}
    assert TypeAdapter(Annotated[str, NameIn(registry)]).json_schema()["enum"] == ["dog"]


class Adopted(Strict):
    home: str


EITHER = TypeAdapter(Annotated[Dog, IfKey("home", Adopted)])


def test_a_key_picks_the_class():
    assert EITHER.validate_python({"kind": "dog", "barks": 2}) == Dog(kind="dog", barks=2)
    assert EITHER.validate_python({"home": "here"}) == Adopted(home="here")
    with pytest.raises(ValidationError, match="home"):
        EITHER.validate_python({})
    with pytest.raises(ValidationError, match="Extra inputs"):
        EITHER.validate_python({"home": "here", "barks": 2})


def test_both_classes_are_in_the_schema():
    titles = {part.get("title") for part in EITHER.json_schema()["anyOf"]}
    assert titles == {"Dog", "Adopted"}
