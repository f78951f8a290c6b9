"""Pydantic types whose allowed values come from a registry, plugins included."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from llmstack.config.base import complaint, raise_at
from llmstack.errors import UserError
from llmstack.registry import Registry, unknown_name

M = TypeVar("M", bound=BaseModel)

_BEGUN: ContextVar[frozenset[str]] = ContextVar("begun", default=frozenset())
"""Titles of the schemas that are being written."""


@dataclass(frozen=True)
class Registered:
    """Marks options whose class depends on a name inside them: ``Annotated[Base, Registered(STAGES, "kind")]``.

    The value's ``key`` is looked up when a recipe is decoded, so a plugin imported before that counts. Problems inside
    the options keep their own dotted path.

    Attributes:
        registry: where the name is looked up.
        key: the key that holds the name.
    """

    registry: Registry[Any]
    key: str

    def model(self, name: str, base: type[M]) -> type[M]:
        """The class of the options of a registered name; ``base`` when the entry has none of its own.

        Raises:
            UserError: what a plugin registered is not a subclass of ``base``.
        """
        found = self.registry.config(name) or base
        if not issubclass(found, base):
            raise UserError(
                f"{name}: expected the config class of this {self.registry.noun} to be a subclass of {base.__name__}, "
                f"got {found.__name__}. Derive it from {base.__module__}.{base.__name__}."
            )
        return found

    def __get_pydantic_core_schema__(self, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Decodes with the class the registry names; a decoded instance passes."""

        def decode(value: Any) -> Any:
            if isinstance(value, source):
                return value
            if not isinstance(value, Mapping):
                raise complaint(
                    f"expected a mapping with the key `{self.key}`, got {value!r}. Write `{self.key}: <name>`."
                )
            if self.key not in value:
                names = ", ".join(self.registry.names())
                text = f"expected a {self.registry.noun} ({names}), got nothing. Add `{self.key}:`."
                raise_at(source.__name__, {(self.key,): text}, value)
            name = value[self.key]
            if not isinstance(name, str) or name not in self.registry:
                text = unknown_name(self.registry.noun, name, self.registry.names())
                raise_at(source.__name__, {(self.key,): text}, value)
            return self.model(name, source).model_validate(value)

        return core_schema.no_info_plain_validator_function(
            decode, metadata={"pydantic_js_functions": [lambda _schema, js: self._json_schema(source, js)]}
        )

    def _json_schema(self, base: type[BaseModel], handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """One ``if name then options`` rule a registered name: editors then complain about the right branch.

        Options inside options of the same registry (a source made of sources) refer to the schema around them by its
        title, in a comment: pydantic looks up references before the recipe's schema has them.
        """
        title = f"Any{base.__name__}"
        if title in _BEGUN.get():
            return {"$comment": title}
        token = _BEGUN.set(_BEGUN.get() | {title})
        try:
            rules = [
                {
                    "if": {"properties": {self.key: {"const": name}}, "required": [self.key]},
                    "then": handler(self.model(name, base).__pydantic_core_schema__),
                }
                for name in self.registry.names()
            ]
        finally:
            _BEGUN.reset(token)
        key = {"enum": list(self.registry.names()), "description": f"The {self.registry.noun}."}
        return {
            "title": title,
            "type": "object",
            "required": [self.key],
            "properties": {self.key: key},
            "additionalProperties": True,
            "allOf": rules,
        }


@dataclass(frozen=True)
class IfKey:
    """Marks options that are of another class when they have a certain key: ``Annotated[Base, IfKey("from", Other)]``.

    Attributes:
        key: the key that tells.
        other: the class of options with it.
    """

    key: str
    other: type[BaseModel]

    def model(self, value: Any, base: type[BaseModel]) -> type[BaseModel]:
        """The class of these options; the other one when nothing is in them, because its key may be left open."""
        return self.other if isinstance(value, Mapping) and (self.key in value or not value) else base

    def __get_pydantic_core_schema__(self, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Decodes with the class the key tells; a decoded instance passes."""

        def decode(value: Any) -> Any:
            if isinstance(value, (source, self.other)):
                return value
            return self.model(value, source).model_validate(value)

        def json_schema(_schema: Any, js: GetJsonSchemaHandler) -> JsonSchemaValue:
            return {"anyOf": [js(kind.__pydantic_core_schema__) for kind in (source, self.other)]}

        return core_schema.no_info_plain_validator_function(decode, metadata={"pydantic_js_functions": [json_schema]})


@dataclass(frozen=True)
class NameIn:
    """Marks a text that must be a registered name: ``Annotated[str, NameIn(MODELS)]``.

    Attributes:
        registry: where the name is looked up.
    """

    registry: Registry[Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Checks the name when a recipe is decoded, so a plugin imported before that counts."""

        def check(value: Any) -> str:
            if not isinstance(value, str) or value not in self.registry:
                text = unknown_name(self.registry.noun, value, self.registry.names())
                raise complaint(text)
            return value

        return core_schema.no_info_plain_validator_function(
            check,
            metadata={
                "pydantic_js_functions": [lambda _schema, _js: {"type": "string", "enum": list(self.registry.names())}]
            },
        )
