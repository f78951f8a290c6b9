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
            self._add(name, _Entry(part, config, summary or first_line, lazy=False))
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
        self._add(name, _Entry(target, config, summary, lazy=True))

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


STAGES: Registry[Any] = Registry("stage kind")
MODELS: Registry[Any] = Registry("model family")
REWARDS: Registry[Any] = Registry("reward kind")
SOURCES: Registry[Any] = Registry("data source")
OPTIMIZERS: Registry[Any] = Registry("optimizer")
SCHEDULES: Registry[Any] = Registry("schedule")


def _add_built_ins() -> None:
    """Enters what llmstack itself provides; every address is checked by a test."""
    stages = "llmstack.config.stages"
    STAGES.add_lazy(
        "pretrain",
        "llmstack.stages.pretrain:PretrainStage",
        config=f"{stages}:PretrainConfig",
        summary="next-token prediction on every token of packed documents",
    )
    STAGES.add_lazy(
        "sft",
        "llmstack.stages.sft:SftStage",
        config=f"{stages}:SftConfig",
        summary="supervised fine-tuning on the assistant's tokens",
    )
    STAGES.add_lazy(
        "reward",
        "llmstack.stages.reward:RewardStage",
        config=f"{stages}:RewardConfig",
        summary="Bradley-Terry reward model on preference pairs",
    )
    STAGES.add_lazy(
        "ppo",
        "llmstack.stages.ppo.stage:PpoStage",
        config=f"{stages}:PpoConfig",
        summary="PPO from a reward, held near a reference by a KL term",
    )
    MODELS.add_lazy(
        "llama", "llmstack.models.families:LLAMA", summary="Llama: RMSNorm, rotary positions, grouped queries, SwiGLU"
    )
    REWARDS.add_lazy(
        "model",
        "llmstack.stages.ppo.rewards:ModelReward",
        config=f"{stages}:ModelRewardConfig",
        summary="score of a trained reward model",
    )
    REWARDS.add_lazy(
        "pep257_style",
        "llmstack.data.stdlib.style:style_reward",
        config=f"{stages}:RewardSourceConfig",
        summary="1 when a docstring summary keeps the PEP 257 style, else 0",
    )
    data = "llmstack.config.data"
    SOURCES.add_lazy(
        "text", "llmstack.data.sources:TextFiles", config=f"{data}:TextFileConfig", summary="plain text files"
    )
    SOURCES.add_lazy("jsonl", "llmstack.data.sources:Jsonl", config=f"{data}:JsonlConfig", summary="one JSON a line")
    for name, cls, summary in (
        ("stdlib_docs", "StdlibDocs", "documentation text of the Python standard library"),
        ("stdlib_summaries", "StdlibSummaries", "function signature and the summary of its docstring"),
        ("stdlib_style_pairs", "StdlibStylePairs", "a summary in PEP 257 style against one that breaks it"),
    ):
        SOURCES.add_lazy(name, f"llmstack.data.stdlib.sources:{cls}", config=f"{data}:StdlibConfig", summary=summary)
    OPTIMIZERS.add_lazy("adamw", "llmstack.optim.adamw:AdamW", summary="Adam with decoupled weight decay")
    for name, summary in (
        ("constant", "the peak rate after warm-up"),
        ("linear", "a straight line down to final_ratio"),
        ("cosine", "half a cosine down to final_ratio"),
        ("wsd", "warm-up, stable, then a decay over the last decay_ratio of the steps"),
    ):
        SCHEDULES.add_lazy(name, f"llmstack.optim.schedules:{name}", summary=summary)


_add_built_ins()
