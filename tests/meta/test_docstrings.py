"""Every public thing says what it is, and tensors say their shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.meta.source import has_code, name_of, python_files, tree_of

Definition = ast.FunctionDef | ast.ClassDef
TENSOR_PACKAGES = ("llmstack/nn", "llmstack/losses", "llmstack/rl")
TENSOR = re.compile(r"\b(Tensor|NDArray|ndarray|FloatArray|IntArray|BoolArray)\b")
SHAPE = re.compile(r"\([A-Z0-9][^)]*\)|\bscalar\b|_[A-Z]{1,4}\b|\bshape\b")


def public(path: Path) -> Iterator[tuple[str, Definition]]:
    """Public classes, functions and methods, with their dotted name; ``construct`` and the like included."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Definition]]:
        for node in body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                yield f"{prefix}{node.name}", node
                if isinstance(node, ast.ClassDef):
                    yield from walk(node.body, f"{prefix}{node.name}.")

    return walk(tree_of(path).body, "")


def words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Za-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text))]


def test_every_module_says_what_it_is():
    files = [path for path in python_files("llmstack") if has_code(path)]
    assert [name_of(path) for path in files if not ast.get_docstring(tree_of(path))] == []


def test_every_public_thing_has_a_docstring_that_says_more_than_its_name():
    silent = [
        f"{name_of(path)}::{name}"
        for path in python_files("llmstack")
        for name, node in public(path)
        if set(words(ast.get_docstring(node) or "")) <= {*words(node.name), "the", "a", "an", "of"}
    ]
    assert silent == []


def test_tensor_arguments_say_their_shape():
    """A function of tensors has a docstring, of its own or of its class, that names shapes."""
    silent = []
    for path in python_files(*TENSOR_PACKAGES):
        for name, node in public(path):
            if not isinstance(node, ast.FunctionDef):
                continue
            owner = next((found for at, found in public(path) if at == name.rpartition(".")[0]), None)
            arguments = (*node.args.args, *node.args.kwonlyargs)
            annotations = [ast.unparse(argument.annotation) for argument in arguments if argument.annotation]
            text = (ast.get_docstring(node) or "") + (ast.get_docstring(owner) or "" if owner else "")
            if any(TENSOR.search(annotation) for annotation in annotations) and not SHAPE.search(text):
                silent.append(f"{name_of(path)}::{name}")
    assert silent == []
