"""Each module of the package has its unit tests at the same place below ``tests/unit``."""

from __future__ import annotations

from tests.meta.source import PACKAGE, ROOT, has_code, name_of, python_files


def test_each_module_has_its_tests():
    missing = []
    for path in python_files("llmstack"):
        inside = path.relative_to(PACKAGE)
        if path.name == "__init__.py" or not has_code(path):
            continue
        mirror = ROOT / "tests" / "unit" / inside.parent / f"test_{inside.name}"
        if not mirror.is_file():
            missing.append(f"{name_of(path)} -> {name_of(mirror)}")
    assert missing == []
