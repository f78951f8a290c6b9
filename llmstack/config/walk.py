"""Follows a plain tree and the configuration classes that describe it, side by side."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from llmstack.config.named import IfKey, Registered


@dataclass(frozen=True)
class Visit:
    """A value of the tree beside its declaration.

    Attributes:
        path: dotted path.
        value: the plain value.
        marks: metadata of the field's annotation.
    """

    path: str
    value: Any
    marks: tuple[Any, ...]


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a class by the key a recipe writes."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def visit(model: type[BaseModel], tree: Any, path: str = "") -> Iterator[Visit]:
    """Yields every value that the class declares, at any depth; what is unknown or malformed is passed over.

    Args:
        model: the class that describes ``tree``.
        tree: plain mappings, lists and scalars, decoded or not.
        path: dotted path of ``tree``.

    Yields:
        Each declared value, parents before children.
    """
    if not isinstance(tree, Mapping):
        return
    for key, field in keys_of(model).items():
        if key in tree:
            below = f"{path}.{key}" if path else key
            yield from _visit_value(_annotation(field), tree[key], below)


def model_at(model: type[BaseModel], tree: Any, location: tuple[str | int, ...]) -> type[BaseModel] | None:
    """Finds the class that describes the mapping at a location.

    Args:
        model: the class that describes ``tree``.
        tree: the plain tree.
        location: keys from the root to the mapping.

    Returns:
        The class, or None when the location is not described by one.
    """
    annotation: Any = model
    for key in location:
        kind, _ = _unwrap(annotation, tree)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = keys_of(kind).get(str(key))
            annotation = _annotation(field) if field else None
        else:
            arguments = get_args(kind)
            annotation = arguments[-1] if get_origin(kind) is dict else (arguments or (None,))[0]
        tree = _item(tree, key)
        if annotation is None:
            return None
    kind, _ = _unwrap(annotation, tree)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _visit_value(annotation: Any, value: Any, path: str) -> Iterator[Visit]:
    kind, marks = _unwrap(annotation, value)
    yield Visit(path, value, marks)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from visit(kind, value, path)
    elif get_origin(kind) is dict and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _visit_value(get_args(kind)[1], item, f"{path}.{key}")
    elif get_origin(kind) in (list, tuple) and isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _visit_value(get_args(kind)[0], item, f"{path}.{index}")


def _annotation(field: FieldInfo) -> Any:
    """The field's annotation with the metadata pydantic has split off it."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def _unwrap(annotation: Any, value: Any) -> tuple[Any, tuple[Any, ...]]:
    """Strips ``Annotated`` and ``| None``, and picks the registered class a value names."""
    marks: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *found = get_args(annotation)
            marks = (*marks, *found)
        elif get_origin(annotation) in (Union, types.UnionType):
            options = [option for option in get_args(annotation) if option is not type(None)]
            if len(options) != 1:
                return annotation, marks
            annotation = options[0]
        else:
            break
    for mark in marks:
        if isinstance(mark, Registered) and isinstance(value, Mapping):
            name = value.get(mark.key)
            if isinstance(name, str) and name in mark.registry:
                return mark.model(name, annotation), marks
        if isinstance(mark, IfKey):
            return mark.model(value, annotation), marks
    return annotation, marks


def _item(tree: Any, key: str | int) -> Any:
    try:
        return tree[key]
    except (KeyError, IndexError, TypeError):
        return None
