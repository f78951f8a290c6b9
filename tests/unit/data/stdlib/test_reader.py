from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from llmstack.data.stdlib.reader import Documented, read_stdlib
from llmstack.errors import DataError

SOURCE = '''"""Module text.

    Indented.
"""
import missing_module
X = 1


def outer(text, *, width=0o17) -> str:
    """Outer text."""

    def inner(): "Inner text."


class Box(list, metaclass=type):
    """Box text."""

    async def close(self):
        """Close text."""

    def silent(self):
        return "not a docstring"


try:
    pass
except ImportError:
    def fallback():
        "Fallback text."
finally:
    class Empty:
        """Empty text."""
if X:
    with open("x") as f:
        def guarded(): "Guarded text."
else:
    def other(): "Other text."
'''


def read(folder: Path) -> tuple[Documented, ...]:
    return read_stdlib.__wrapped__(str(folder))


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_everything_documented_is_found_and_nothing_is_imported(tmp_path: Path) -> None:
    write(tmp_path, "m.py", SOURCE)
    found = [(item.kind, item.name, item.signature, item.text) for item in read(tmp_path)]
    assert found == [
        ("module", "m.py", "", "Module text.\n\nIndented."),
        ("function", "outer", "def outer(text, *, width=15) -> str:", "Outer text."),
        ("function", "inner", "def inner():", "Inner text."),
        ("class", "Box", "class Box(list, type):", "Box text."),
        ("function", "close", "class Box:\n    async def close(self):", "Close text."),
        ("function", "fallback", "def fallback():", "Fallback text."),
        ("class", "Empty", "class Empty:", "Empty text."),
        ("function", "guarded", "def guarded():", "Guarded text."),
        ("function", "other", "def other():", "Other text."),
    ]


def test_place_is_file_and_line(tmp_path: Path) -> None:
    write(tmp_path, "pkg/m.py", SOURCE)
    assert [item.where for item in read(tmp_path)][:2] == ["pkg/m.py:1", "pkg/m.py:9"]


def test_files_come_in_name_order_without_tests_and_foreign_packages(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "test/t.py", "pkg/tests/t.py", "site-packages/s.py", "config-3/c.py", "pkg/z.py"):
        write(tmp_path, name, f'"""{name}"""')
    assert [item.name for item in read(tmp_path)] == ["a.py", "b.py", "pkg/z.py"]


def test_files_of_other_pythons_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "old.py", "print 'python 2'")
    write(tmp_path, "null.py", "x = '\0'")
    write(tmp_path, "odd.py", '"""\\d is a doubtful escape."""')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [item.name for item in read(tmp_path)] == ["odd.py"]


def test_help_topics(tmp_path: Path) -> None:
    write(tmp_path, "pydoc_data/topics.py", "topics = {'assert': 'The statement\\n', 'empty': '', 'number': 3}")
    (topic,) = read(tmp_path)
    assert (topic.kind, topic.name, topic.text, topic.where) == (
        "topic",
        "assert",
        "The statement",
        "pydoc_data/topics.py:1",
    )


def test_no_source_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected the standard library's \.py files, got none"):
        read(tmp_path)


def test_this_python() -> None:
    found = read_stdlib()
    assert sum(item.kind == "function" for item in found) > 1000
    assert sum(item.kind == "topic" for item in found) > 50
    dedent = next(item for item in found if item.name == "dedent" and item.where.startswith("textwrap.py"))
    assert dedent.signature == "def dedent(text):"
    assert read_stdlib() is found
