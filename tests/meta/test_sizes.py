"""A file is a page or two, a function fits a screen, an argument list fits a line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.meta.source import name_of, python_files, tree_of

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_CONSTRUCT_LINES = 40
MAX_CLASS_LINES = 250
MAX_PARAMETERS = 7

Function = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(node: Function | ast.ClassDef) -> int:
    """Lines of a definition without its docstring."""
    first = node.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0
    return (node.end_lineno or 0) - node.lineno + 1 - docstring


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, Function))


def parameters(node: Function) -> list[str]:
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def test_files_are_short():
    files = python_files("llmstack", "tests", "scripts")
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_functions_fit_a_screen():
    long = {
        f"{name_of(path)}::{node.name}": code_lines(node)
        for path in python_files("llmstack", "scripts")
        for node in functions(path)
        if code_lines(node) > (MAX_CONSTRUCT_LINES if node.name == "construct" else MAX_FUNCTION_LINES)
    }
    assert long == {}


def test_classes_fit_a_file():
    long = {
        f"{name_of(path)}::{node.name}": code_lines(node)
        for path in python_files("llmstack")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and code_lines(node) > MAX_CLASS_LINES
    }
    assert long == {}


def test_argument_lists_are_short():
    many = {
        f"{name_of(path)}::{node.name}": len(parameters(node)) + len(node.args.kwonlyargs)
        for path in python_files("llmstack")
        for node in functions(path)
        if node.name != "construct" and len(parameters(node)) + len(node.args.kwonlyargs) > MAX_PARAMETERS
    }
    assert many == {}
