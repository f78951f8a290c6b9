"""What the standard library documents: every docstring with its place and signature, found with `ast` alone."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import os
import platform
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmstack.errors import DataError

# Tests are not documentation, site-packages is not the standard library, and `encodings` is one generated sentence
# per character set.
SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "encodings", "turtledemo"}
)
TOPICS_FILE = "pydoc_data/topics.py"


@dataclass(frozen=True)
class Documented:
    """A module, class, function or help topic with its documentation.

    Attributes:
        kind: ``module``, ``class``, ``function`` or ``topic``.
        name: its own name; of a module its path, of a topic its title.
        signature: how its definition begins, as source (``def dedent(text):``); empty for modules and topics.
        text: its documentation, indentation cleaned as `inspect.cleandoc` does.
        where: ``file:line``.
    """

    kind: str
    name: str
    signature: str
    text: str
    where: str


@functools.lru_cache(maxsize=1)
def read_stdlib(folder: str | None = None) -> tuple[Documented, ...]:
    """Read the standard library's documentation. The answer is kept for the life of the process.

    Args:
        folder: where the library lies; None asks this Python.

    Returns:
        Everything documented, in the order of file names and lines.

    Raises:
        DataError: there is no Python source in the folder.
    """
    root = Path(folder or sysconfig.get_paths()["stdlib"])
    found: list[Documented] = []
    for path in _source_files(root):
        tree = _parse(path)
        if tree is not None:
            name = path.relative_to(root).as_posix()
            found += _topics(tree, name) if name == TOPICS_FILE else _documented(tree, name)
    if not found:
        raise DataError(
            f"{root}: expected the standard library's .py files, got none with documentation. "
            "Use a Python that ships its library as source."
        )
    return tuple(found)


def library_fingerprint(folder: str | None = None) -> str:
    """Which library :func:`read_stdlib` reads: changes with its version, its files and their sizes.

    Args:
        folder: where the library lies; None asks this Python.

    Returns:
        sha256 hex.
    """
    root = Path(folder or sysconfig.get_paths()["stdlib"])
    digest = hashlib.sha256(platform.python_version().encode())
    for path in _source_files(root):
        digest.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size}\n".encode())
    return digest.hexdigest()


def _source_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(("config-", "lib-dynload"))
        )
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(folder, name)


def _parse(path: Path) -> ast.Module | None:
    """The file's syntax tree; None for files meant for other Pythons (lib2to3 keeps some) or unreadable ones."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # doubtful escapes in other people's sources
            return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return None


def _topics(tree: ast.Module, name: str) -> Iterator[Documented]:
    """The help topics: one dictionary literal of title -> text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                title, text = _literal(key), _literal(value)
                if title and text:
                    yield Documented("topic", title, "", inspect.cleandoc(text), f"{name}:{value.lineno}")


def _literal(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _documented(tree: ast.Module, name: str) -> Iterator[Documented]:
    text = ast.get_docstring(tree)
    if text:
        yield Documented("module", name, "", text, f"{name}:1")
    yield from _in_body(tree.body, name, None)


def _in_body(body: list[ast.stmt], file: str, owner: str | None) -> Iterator[Documented]:
    """Walk statements only: expressions hold no documentation and are most of a tree."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield Documented("function", node.name, _function_line(node, owner), text, f"{file}:{node.lineno}")
            yield from _in_body(node.body, file, None)
        elif isinstance(node, ast.ClassDef):
            text = ast.get_docstring(node)
            if text:
                yield Documented("class", node.name, _class_line(node), text, f"{file}:{node.lineno}")
            yield from _in_body(node.body, file, node.name)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for inner in _inner_bodies(node):
                yield from _in_body(inner, file, owner)


def _inner_bodies(node: ast.If | ast.Try | ast.With) -> Iterator[list[ast.stmt]]:
    yield node.body
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            yield handler.body
        yield node.finalbody
    if not isinstance(node, ast.With):
        yield node.orelse


def _function_line(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str | None) -> str:
    head = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{head} {node.name}({ast.unparse(node.args)}){returns}:"
    return line if owner is None else f"class {owner}:\n    {line}"


def _class_line(node: ast.ClassDef) -> str:
    bases = ", ".join(ast.unparse(base) for base in [*node.bases, *(keyword.value for keyword in node.keywords)])
    return f"class {node.name}({bases}):" if bases else f"class {node.name}:"
