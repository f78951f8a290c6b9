"""The schema is checked with a validator of the keywords it uses, so that no further package is needed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from llmstack.config.paths import configs_folder, shipped_recipes
from llmstack.config.schema import recipe_schema

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
KNOWN = {
    "$ref", "$defs", "$schema", "anyOf", "allOf", "if", "then", "type", "enum", "const", "properties", "required",
    "additionalProperties", "patternProperties", "propertyNames", "items", "prefixItems", "minItems", "maxItems",
    "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "title", "description",
    "default",
}  # fmt: skip


def errors(node: Any, schema: dict[str, Any], root: dict[str, Any], path: str = "") -> list[str]:
    """The paths at which a plain value breaks the schema."""
    assert set(schema) <= KNOWN, f"the test's validator does not know {set(schema) - KNOWN}"
    found: list[str] = []
    if "$ref" in schema:
        found += errors(node, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, path)
    if "anyOf" in schema:
        options = [errors(node, option, root, path) for option in schema["anyOf"]]
        found += min(options, key=len) if all(options) else []
    for option in schema.get("allOf", []):
        found += errors(node, option, root, path)
    if "if" in schema and not errors(node, schema["if"], root, path):
        found += errors(node, schema["then"], root, path)
    wrong_type = "type" in schema and not has_type(node, schema["type"])
    if (
        wrong_type
        or ("enum" in schema and node not in schema["enum"])
        or ("const" in schema and node != schema["const"])
    ):
        return [*found, path]
    if isinstance(node, str) and "pattern" in schema and not re.search(schema["pattern"], node):
        found.append(path)
    if isinstance(node, (int, float)) and not isinstance(node, bool):
        found += [path] if outside(node, schema) else []
    if isinstance(node, dict):
        found += [f"{path}.{key}" for key in schema.get("required", []) if key not in node]
        for key, value in node.items():
            found += key_errors(key, value, schema, root, f"{path}.{key}".lstrip("."))
    if isinstance(node, list):
        for index, value in enumerate(node):
            prefix = schema.get("prefixItems", [])
            below = prefix[index] if index < len(prefix) else schema.get("items", {})
            found += errors(value, below, root, f"{path}.{index}") if isinstance(below, dict) else [path]
    return found


def key_errors(key: str, value: Any, schema: dict[str, Any], root: dict[str, Any], path: str) -> list[str]:
    if key in schema.get("properties", {}):
        return errors(value, schema["properties"][key], root, path)
    for pattern, below in schema.get("patternProperties", {}).items():
        if re.search(pattern, key):
            return errors(value, below, root, path)
    rest = schema.get("additionalProperties", True)
    return errors(value, rest, root, path) if isinstance(rest, dict) else [] if rest else [path]


def has_type(node: Any, wanted: str | list[str]) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    if node is None or isinstance(node, bool):
        return ("null" if node is None else "boolean") in names
    return any(name != "null" and name != "boolean" and isinstance(node, TYPES[name]) for name in names)


def outside(number: float, schema: dict[str, Any]) -> bool:
    return (
        number < schema.get("minimum", number)
        or number > schema.get("maximum", number)
        or ("exclusiveMinimum" in schema and number <= schema["exclusiveMinimum"])
        or ("exclusiveMaximum" in schema and number >= schema["exclusiveMaximum"])
    )


@pytest.fixture(scope="module")
def schema():
    return recipe_schema()


@pytest.fixture
def quickstart():
    return yaml.safe_load(shipped_recipes()["quickstart"].read_text(encoding="utf-8"))


def test_it_is_json(schema):
    assert json.loads(json.dumps(schema)) == schema


def test_every_shipped_recipe_passes(schema):
    for path in shipped_recipes().values():
        assert errors(yaml.safe_load(path.read_text(encoding="utf-8")), schema, schema) == []


def test_every_shipped_group_passes(schema):
    for folder in ("model", "tokenizer", "optim", "parallel", "hardware"):
        for path in (configs_folder() / folder).glob("*.yaml"):
            assert errors({folder: yaml.safe_load(path.read_text(encoding="utf-8"))}, schema, schema) == []
    for path in (configs_folder() / "stage").glob("*.yaml"):
        assert errors({"stages": {"a": yaml.safe_load(path.read_text(encoding="utf-8"))}}, schema, schema) == []


NESTED = {"source": "concat", "of": {"x": {"source": "concat", "of": {"y": {"source": "text", "split": "x"}}}}}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"sed": 1}, "sed"),
        ({"seed": "one"}, "seed"),
        ({"model": {"hidden_size": 0}}, "model.hidden_size"),
        ({"model": {"hiden_size": 1}}, "model.hiden_size"),
        ({"model": {"family": "lama"}}, "model.family"),
        ({"hydra": {"run": {}}}, "hydra.run"),
        ({"stages": {"a": {"kind": "pretran"}}}, "stages.a.kind"),
        ({"stages": {"a": {"kind": "pretrain", "budget": "100"}}}, "stages.a.budget"),
        ({"stages": {"a": {"kind": "pretrain", "centering": 1}}}, "stages.a.centering"),
        ({"stages": {"a": {"kind": "sft", "data": {"source": "text", "split": "x"}}}}, "stages.a.data.split"),
        ({"stages": {"a": {"kind": "sft", "data": NESTED}}}, "stages.a.data.of.x.of.y.split"),
        ({"stages": {"a": {"kind": "ppo", "reward": {"kind": "model", "frm": "x"}}}}, "stages.a.reward.frm"),
    ],
)
def test_a_mistake_is_found_at_its_key(schema, quickstart, change, path):
    assert path in errors({**quickstart, **change}, schema, schema)


def test_an_interpolation_may_stand_for_any_value(schema, quickstart):
    assert errors({**quickstart, "seed": "${oc.decode:${oc.env:SEED}}"}, schema, schema) == []


def test_each_class_is_written_once(schema):
    assert json.dumps(schema).count('"title": "PpoConfig"') == 1
    assert "required" not in schema
