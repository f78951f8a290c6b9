"""Names for the parts a recipe can choose: one table a kind of part, open to plugins.

A built-in is entered by the text of its address (``llmstack.stages.sft:SftStage``) and imported when somebody asks for
it, so listing names or decoding a recipe never loads MindSpore. A plugin enters its own part with the decorator
:meth:`Registry.register`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llmstack import catalog
from llmstack.catalog import BuiltIn
from llmstack.errors import UserError

T = TypeVar("T")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Suggests the known name closest to a wrong one.

    Args:
        name: what the user wrote.
        known: the names that would have been right.

    Returns:
        ``Did you mean `x`?`` or the empty text when nothing is close.
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.6)
    return f"Did you mean `{by_lower[close[0]]}`?" if close else ""


def unknown_name(noun: str, name: object, known: Iterable[str]) -> str:
    """Words the complaint about a name that is not in a closed list.

    Args:
        noun: what the name should be, e.g. ``stage kind``.
        name: what the user wrote.
        known: the names that would have been right.

    Returns:
        ``expected a stage kind (a, b), got 'c'. Did you mean `b`?``
    """
    names = sorted(known)
    listed = ", ".join(names) if names else "none is registered"
    article = "an" if noun[0] in "aeiou" else "a"
    fix = did_you_mean(name, names) or "Choose one of these, or name the module that registers it under `plugins`."
    return f"expected {article} {noun} ({listed}), got {name!r}. {fix}"


@dataclass
class _Entry:
    """One name: the part (or its address), the class of its options (or its address), one line about it."""

    target: Any
    config: str | type | None
    summary: str
    lazy: bool
    built_in: bool


class Registry(Generic[T]):
    """The parts of one kind by name.

    Args:
        noun: what an entry is, for messages: ``stage kind``.
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._entries: dict[str, _Entry] = {}

    def register(self, name: str, *, config: type | None = None, summary: str = "") -> Callable[[T], T]:
        """Enters the decorated class or function under a name.

        Args:
            name: lower_snake name, as written in a recipe.
            config: the class of its options, a subclass of the base the recipe expects; None: it has none of its own.
            summary: one line for ``llmstack list``; empty takes the first line of the docstring.

        Returns:
            A decorator that gives back what it decorates.

        Raises:
            UserError: the name is taken.
        """

        def enter(part: T) -> T:
            first_line = (part.__doc__ or "").strip().partition("\n")[0]
            self._add(name, _Entry(part, config, summary or first_line, lazy=False, built_in=False))
            return part

        return enter

    def add_lazy(self, name: str, target: str, *, config: str | type | None = None, summary: str) -> None:
        """Enters a part by its address, to be imported when it is asked for.

        Args:
            name: lower_snake name, as written in a recipe.
            target: ``package.module:attribute``.
            config: class of its options, or its address; None: it has none of its own.
            summary: one line for ``llmstack list``.

        Raises:
            UserError: the name is taken.
        """
        self._add(name, _Entry(target, config, summary, lazy=True, built_in=True))

    def get(self, name: str) -> T:
        """Gives the part of that name, importing it when needed.

        Raises:
            UserError: no such name; the message lists the known ones and the nearest.
        """
        entry = self._entry(name)
        if entry.lazy:
            entry.target, entry.lazy = _import(entry.target), False
        part: T = entry.target
        return part

    def plugin_part(self, name: str) -> T | None:
        """Gives the part of that name when a plugin entered it; None for a built-in, which is not imported.

        Raises:
            UserError: no such name.
        """
        entry = self._entry(name)
        return None if entry.built_in else entry.target

    def config(self, name: str) -> type | None:
        """Gives the class of the options of that part; None when it has none of its own.

        Raises:
            UserError: no such name.
        """
        entry = self._entry(name)
        if isinstance(entry.config, str):
            found: type = _import(entry.config)
            entry.config = found
        return entry.config

    def summary(self, name: str) -> str:
        """Gives the one line about that part.

        Raises:
            UserError: no such name.
        """
        return self._entry(name).summary

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def _entry(self, name: str) -> _Entry:
        try:
            return self._entries[name]
        except KeyError:
            raise UserError(unknown_name(self.noun, name, self._entries)) from None

    def _add(self, name: str, entry: _Entry) -> None:
        if name in self._entries:
            raise UserError(
                f"{name}: expected a new {self.noun}, got a name that is already registered. Choose another name."
            )
        self._entries[name] = entry


def _import(address: str) -> Any:
    module, _, attribute = address.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _built_in(noun: str, entries: Iterable[BuiltIn]) -> Registry[Any]:
    """A registry that holds what llmstack itself provides."""
    registry: Registry[Any] = Registry(noun)
    for entry in entries:
        registry.add_lazy(entry.name, entry.target, config=entry.config, summary=entry.summary)
    return registry


STAGES = _built_in("stage kind", catalog.STAGES)
MODELS = _built_in("model family", catalog.MODELS)
PROVIDERS = _built_in("model provider", catalog.PROVIDERS)
REWARDS = _built_in("reward kind", catalog.REWARDS)
SOURCES = _built_in("data source", catalog.SOURCES)
ADVANTAGES = _built_in("advantage", catalog.ADVANTAGES)
AGGREGATIONS = _built_in("loss aggregation", catalog.AGGREGATIONS)
ANNOTATORS = _built_in("annotator kind", catalog.ANNOTATORS)
OPTIMIZERS = _built_in("optimizer", catalog.OPTIMIZERS)
SCHEDULES = _built_in("schedule", catalog.SCHEDULES)
CLEANERS = _built_in("cleaning step", catalog.CLEANERS)
