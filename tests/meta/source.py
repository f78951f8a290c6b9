"""The project's own Python files, parsed."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "llmstack"


def python_files(*folders: str) -> list[Path]:
    """Every Python file below folders of the repository, sorted; at least one."""
    files = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert files, f"no Python file in {folders}"
    return files


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name_of(path: Path) -> str:
    """The path as messages show it."""
    return path.relative_to(ROOT).as_posix()


def has_code(path: Path) -> bool:
    """Whether a file holds more than its docstring."""
    body = tree_of(path).body
    return any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in body)
