"""The page of formulas names files that exist, and leaves no oracle out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:llmstack|tests|scripts)/[\w/.]+)(?:::\w+)?`", PAGE)))
NAMES = sorted(set(re.findall(r"`((?:llmstack|tests)/[\w/]+\.py)::(\w+)`", PAGE)))


def test_every_path_on_the_page_exists():
    assert PATHS
    assert [path for path in PATHS if not (ROOT / path).exists()] == []


def test_every_function_on_the_page_exists():
    assert NAMES
    missing = [
        f"{path}::{name}"
        for path, name in NAMES
        if not re.search(rf"^(?:def|class) {name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []


def test_every_oracle_is_on_the_page():
    helpers = {"__init__", "differences", "test_oracles"}
    oracles = {file.stem for file in (ROOT / "tests" / "reference").glob("*.py")} - helpers
    assert [name for name in sorted(oracles) if f"tests/reference/{name}.py" not in PAGE] == []
