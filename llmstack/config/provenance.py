"""Which line of which file, or which argument, each value of a recipe came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from llmstack.config.paths import display
from llmstack.config.yamlfiles import read_node

COMMAND_LINE = "command line"
DEFAULT = "default"
INHERITED = "inherited from "


class Origins:
    """Dotted path -> ``file:line`` or ``command line``, filled in the order in which values are merged."""

    def __init__(self) -> None:
        self._where: dict[str, str] = {}
        self._removed: set[str] = set()
        self._left_open: dict[str, str] = {}

    def add_file(self, file: Path, package: str = "") -> None:
        """Records every key of a YAML file.

        Args:
            file: an existing, well-formed YAML file.
            package: dotted path under which the file's keys are merged; empty for the root.
        """
        if package:
            self._where.setdefault(package, f"{display(file)}:1")
        self._add_mapping(read_node(file), display(file), package, root=True)

    def add_override(self, path: str, value: Any) -> None:
        """Records a command-line override and everything below it."""
        self._set(path, COMMAND_LINE, keep_children=isinstance(value, dict))
        if isinstance(value, dict):
            for key, child in value.items():
                self.add_override(f"{path}.{key}", child)

    def remove(self, path: str) -> None:
        """Forgets a key that the command line deletes."""
        self._set(path, "", keep_children=False)
        del self._where[path]
        self._removed.add(path)

    def inherit(self, path: str, source: str) -> None:
        """Records that a value was taken over from another path of the recipe."""
        self._where[path] = INHERITED + source

    def leave_open(self, path: str, target: str) -> None:
        """Records a key that the recipe leaves to the command line (``???``).

        Args:
            path: the key.
            target: the key that has to be given; another one when this one's value comes by interpolation.
        """
        self._left_open[path] = target

    def left_open(self, path: str) -> str | None:
        """The key that has to be given so that this one has a value; None when the recipe leaves nothing open here."""
        return self._left_open.get(path)

    def find(self, path: str) -> str:
        """Where a value came from, or what is below it, or its nearest ancestor; empty when nothing is known."""
        if path not in self._where and (path in self._removed or self.find_below(path) == {COMMAND_LINE}):
            return COMMAND_LINE
        while path:
            if path in self._where:
                return self._where[path]
            path = path.rpartition(".")[0]
        return ""

    def get(self, path: str) -> str | None:
        """Where exactly this value came from; None when nobody set it."""
        return self._where.get(path)

    def sets(self, path: str) -> bool:
        """Whether a file or the command line gives this very path a value."""
        return not self._where.get(path, INHERITED).startswith(INHERITED)

    def find_below(self, path: str) -> set[str]:
        """Where the values below a path came from, those inherited left out."""
        below = {where for known, where in self._where.items() if known.startswith(path + ".")}
        return {where for where in below if not where.startswith(INHERITED)}

    def spread(self, path: str, value: Any) -> None:
        """Gives everything below a path, whose value came by interpolation, the origin of the path itself."""
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, child in items:
            self._where[f"{path}.{key}"] = self.find(path)
            self.spread(f"{path}.{key}", child)

    def _set(self, path: str, where: str, *, keep_children: bool) -> None:
        if not keep_children:
            for below in [known for known in self._where if known.startswith(path + ".")]:
                del self._where[below]
        self._where[path] = where

    def _add_mapping(self, node: yaml.MappingNode, file: str, path: str, *, root: bool = False) -> None:
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    self._add_mapping(merged, file, path)
                continue
            if root and key.value in ("defaults", "hydra"):
                continue
            self._add(value, f"{file}:{key.start_mark.line + 1}", file, f"{path}.{key.value}" if path else key.value)

    def _add(self, node: yaml.Node, where: str, file: str, path: str) -> None:
        is_mapping = isinstance(node, yaml.MappingNode)
        self._set(path, where, keep_children=is_mapping)
        if isinstance(node, yaml.MappingNode):
            self._add_mapping(node, file, path)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._add(item, f"{file}:{item.start_mark.line + 1}", file, f"{path}.{index}")
