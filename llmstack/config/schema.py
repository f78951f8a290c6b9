"""The JSON schema of recipe files, generated from the configuration classes and the registries."""

from __future__ import annotations

from typing import Any

from llmstack.config.recipe import RecipeConfig

_INTERPOLATION = {"type": "string", "pattern": r"\$\{", "description": "A Hydra interpolation."}


def recipe_schema() -> dict[str, Any]:
    """Builds the schema an editor checks a recipe file with.

    A file is one part of a recipe: groups and the command line may give the rest, so nothing is required, and any
    value may be an interpolation. Names and options of loaded plugins are included.

    Returns:
        A JSON schema of draft 2020-12.
    """
    schema = _relaxed(RecipeConfig.model_json_schema())
    shared: dict[str, Any] = schema.setdefault("$defs", {})
    schema["properties"] = {key: _hoisted(value, shared) for key, value in schema["properties"].items()}
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["properties"]["defaults"] = {
        "type": "array",
        "description": "Configuration groups the recipe is put together from; later ones win, `_self_` is this file.",
        "items": {"type": ["string", "object"]},
    }
    schema["properties"]["hydra"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "searchpath": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Folders with further groups; a relative one counts from the recipe's folder.",
            }
        },
    }
    return schema


def _relaxed(node: Any) -> Any:
    """Drops ``required``, lets an interpolation stand for any value, and refers to what comments name."""
    if isinstance(node, list):
        return [_relaxed(item) for item in node]
    if not isinstance(node, dict):
        return node
    if set(node) == {"$comment"}:
        return {"$ref": f"#/$defs/{node['$comment']}"}
    relaxed = {key: _relaxed(value) for key, value in node.items() if key not in ("required", "minProperties")}
    if "if" in node:
        relaxed["if"] = node["if"]
    if isinstance(node.get("properties"), dict):
        relaxed["properties"] = {
            key: {"anyOf": [_relaxed(value), _INTERPOLATION]} for key, value in node["properties"].items()
        }
    return relaxed


def _hoisted(node: Any, shared: dict[str, Any]) -> Any:
    """Moves each class's schema to ``$defs`` and leaves a reference, so that it is written once."""
    if isinstance(node, list):
        return [_hoisted(item, shared) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: _hoisted(value, shared) for key, value in node.items()}
    name = node.get("title")
    is_class = isinstance(name, str) and "properties" in node and "additionalProperties" in node
    if is_class and shared.setdefault(name, node) == node:
        return {"$ref": f"#/$defs/{name}"}
    return node
