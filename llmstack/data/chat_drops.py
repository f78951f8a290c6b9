"""What a chat template leaves out of a conversation without a word: turns, tool calls, tools.

A template that does not know a role may skip its turns, and one that does not know tools never writes them; a model
would be trained without what somebody put into the data. Whether something is written depends on roles and keys, hardly
on words: each form of conversation is tried once, with words that cannot be mistaken for others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmstack.data.records import Message
from llmstack.errors import DataError

Render = Callable[[Sequence[Message], str], str]
"""Turns and tools (a JSON list, or empty) -> what the model reads."""


class DropCheck:
    """Finds what a template leaves out, and remembers it for each form of conversation.

    Args:
        render: the template.
    """

    def __init__(self, render: Render) -> None:
        self._render = render
        self._seen: dict[Hashable, str] = {}

    def dropped(self, messages: Sequence[Message], tools: str) -> str:
        """What the template leaves out.

        Args:
            messages: turns that the template renders.
            tools: JSON list of schemas, or empty.

        Returns:
            The first thing it leaves out, such as ``turn 0 (system)``; empty when it writes everything.
        """
        form = (*map(_form, messages), bool(tools))
        if form not in self._seen:
            self._seen[form] = self._try(messages, tools)
        return self._seen[form]

    def _try(self, messages: Sequence[Message], tools: str) -> str:
        probes = [_probe(message, f"qzx{turn}") for turn, message in enumerate(messages)]
        schemas = json.loads(tools) if tools else []
        names = _rename(schemas, "qzxt")
        try:
            text = self._render(probes, json.dumps(schemas) if tools else "")
        except DataError:  # it reads the words: the real ones must do
            text, probes, names = self._render(messages, tools), list(messages), _names(json.loads(tools or "[]"))
        for turn, probe in enumerate(probes):
            if not _is_written(probe.content, text):
                return f"the text of turn {turn} ({probe.role})"
            if not all(name in text for name in _names(_calls(probe))):
                return f"the tool calls of turn {turn} ({probe.role})"
        return "" if all(name in text for name in names) else "the tools"


def _form(message: Message) -> Hashable:
    keys = tuple(sorted(json.loads(message.extra))) if message.extra else ()
    return message.role, not message.content.strip(), keys, len(_calls(message))


def _probe(message: Message, mark: str) -> Message:
    """The same turn in words that stand nowhere else."""
    if message.content.strip():
        message = replace(message, content=f"{mark}c")
    if message.extra:
        extra = json.loads(message.extra)
        _rename(extra.get("tool_calls", []), mark)
        message = replace(message, extra=json.dumps(extra))
    return message


def _calls(message: Message) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = json.loads(message.extra).get("tool_calls", []) if message.extra else []
    return calls


def _functions(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of tool calls or schemas, the objects that have a name: themselves, or what they hold under ``function``."""
    inner = [item["function"] if isinstance(item.get("function"), Mapping) else item for item in items]
    return [item for item in inner if isinstance(item.get("name"), str)]


def _names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in _functions(items)]


def _rename(items: list[dict[str, Any]], mark: str) -> list[str]:
    """Gives tool calls or schemas names that stand nowhere else."""
    for index, item in enumerate(_functions(items)):
        item["name"] = f"{mark}n{index}z"
    return _names(items)


def _is_written(content: str, text: str) -> bool:
    """Whether a turn's text is there, as it is or as JSON."""
    return content.strip() in text or json.dumps(content, ensure_ascii=False)[1:-1] in text
