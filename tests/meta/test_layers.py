"""An import goes to a lower layer, or stays in its own package."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.meta.source import PACKAGE, name_of, python_files, tree_of

LEVELS = [
    {"errors", "catalog", "registry", "plugins", "config"},
    {"runtime", "nn", "losses", "rl", "rewards"},
    {"data", "models", "optim", "parallel", "generation", "integrations.mindformers", "integrations.mindrecord"},
    {"engine"},
    {"stages", "evaluation", "annotation"},
    {"integrations.lm_eval"},
    {"testing"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
SAME_LEVEL = {
    "registry": {"errors", "catalog"},
    "plugins": {"errors", "registry"},
    "config": {"errors", "registry", "plugins"},
    "nn": {"runtime"},
    "losses": {"runtime", "nn"},
    "rewards": {"runtime", "rl"},
    "generation": {"models"},
    "parallel": {"models"},
    "integrations.mindformers": {"models", "optim"},
    "integrations.mindrecord": {"data"},
    "evaluation": {"stages"},
    "annotation": {"evaluation"},
}
"""Which packages of its own level a package may import."""
DATA_MAY_IMPORT = {"errors", "registry", "plugins", "config", "rl"}
WITHOUT_MINDSPORE = {"errors", "registry", "plugins", "config", "rl", "rewards", "data"}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything a file imports, inside functions too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: imports are absolute"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def package_named(names: Sequence[str]) -> str:
    """The package a module belongs to, from its name below ours; each bridge to a library is one of its own."""
    return ".".join(names[: 2 if names[0] == "integrations" else 1])


def package_of(path: Path) -> str:
    return package_named([part.removesuffix(".py") for part in path.relative_to(PACKAGE).parts])


def allowed(importer: str, imported: str) -> bool:
    if importer == imported or imported in SAME_LEVEL.get(importer, ()):
        return True
    if importer == "data":
        return imported in DATA_MAY_IMPORT
    return LEVEL[imported] < LEVEL[importer]


def test_every_package_has_a_level():
    found = {package_of(path) for path in python_files("llmstack")} - {"__init__", "integrations.__init__"}
    assert found <= set(LEVEL), f"give {found - set(LEVEL)} a level in the layer table"


def test_imports_point_down():
    wrong = [
        f"{name_of(path)}:{line} imports {name}"
        for path in python_files("llmstack")
        if package_of(path) in LEVEL
        for line, name in imports(path)
        if name.startswith("llmstack.")
        for imported in [package_named(name.split(".")[1:])]
        if imported in LEVEL and not allowed(package_of(path), imported)
    ]
    assert wrong == []


def test_numpy_layers_never_import_mindspore():
    wrong = [
        f"{name_of(path)}:{line} imports {name}"
        for path in python_files("llmstack")
        if package_of(path) in WITHOUT_MINDSPORE
        for line, name in imports(path)
        if name.split(".")[0] in ("mindspore", "mindformers")
    ]
    assert wrong == []


def test_only_the_command_line_imports_the_command_line():
    assert not any(allowed(name, "cli") for name in LEVEL if name != "cli")


def test_oracles_import_nothing_of_the_project():
    wrong = [
        f"{name_of(path)}:{line} imports {name}"
        for path in python_files("tests/reference")
        if not path.name.startswith("test_")
        for line, name in imports(path)
        if name.split(".")[0] in ("llmstack", "mindspore")
    ]
    assert wrong == []
