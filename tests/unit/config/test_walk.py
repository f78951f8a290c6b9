from __future__ import annotations

from typing import Annotated

from pydantic import Field

from llmstack.config.base import Strict
from llmstack.config.named import Registered
from llmstack.config.walk import keys_of, model_at, visit
from llmstack.registry import Registry


class Leaf(Strict):
    from_: Annotated[str, "mark"] = Field(alias="from")


class Part(Strict):
    kind: str


class BigPart(Part):
    leaf: Leaf | None = None


REGISTRY: Registry[object] = Registry("part")
REGISTRY.register("big", config=BigPart)(object())
AnyPart = Annotated[Part, Registered(REGISTRY, "kind")]


class Root(Strict):
    parts: dict[str, AnyPart]
    several: tuple[Leaf, ...] = ()
    either: int | str = 1


TREE = {
    "parts": {"a": {"kind": "big", "leaf": {"from": "x"}}, "b": {"kind": "unknown", "leaf": {"from": "y"}}, "c": 3},
    "several": [{"from": "z"}, None],
    "either": {"deep": 1},
    "strange": {"from": "w"},
}


def test_keys_are_those_a_recipe_writes():
    assert list(keys_of(Leaf)) == ["from"]


def test_marked_values_are_found_at_any_depth():
    found = {seen.path: seen.value for seen in visit(Root, TREE) if "mark" in seen.marks}
    assert found == {"parts.a.leaf.from": "x", "several.0.from": "z"}


def test_parents_come_before_children():
    paths = [seen.path for seen in visit(Root, TREE)]
    assert paths.index("parts") < paths.index("parts.a") < paths.index("parts.a.leaf")
    assert "strange" not in paths


def test_a_tree_of_another_shape_is_passed_over():
    assert list(visit(Root, [1])) == []
    assert [seen.path for seen in visit(Root, {"parts": 5, "several": "abc"})] == ["parts", "several"]


def test_the_class_of_a_location_is_found_through_the_registry():
    assert model_at(Root, TREE, ()) is Root
    assert model_at(Root, TREE, ("parts", "a")) is BigPart
    assert model_at(Root, TREE, ("parts", "a", "leaf")) is Leaf
    assert model_at(Root, TREE, ("several", 0)) is Leaf


def test_a_location_without_a_class_gives_none():
    assert model_at(Root, TREE, ("parts",)) is None
    assert model_at(Root, TREE, ("either", "deep")) is None
    assert model_at(Root, TREE, ("strange", "from", "more")) is None
    assert model_at(Root, TREE, ("parts", "a", "leaf", "from", 0)) is None
