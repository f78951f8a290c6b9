"""Pages link to what exists, and the page of the architecture names modules and parts that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.meta.source import PACKAGE, ROOT, tree_of

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", ARCHITECTURE)))
NOT_PARTS = {"config.json", "summary.json", "model.from"}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_front_page_links_to_every_page():
    text = PAGES[0].read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in text] == []


def test_every_part_of_the_architecture_exists():
    assert NAMES
    assert [name for name in NAMES if name not in NOT_PARTS and not exists(name)] == []


def exists(name: str) -> bool:
    """Whether ``package.module.Class.method``, or less of it, is there."""
    path, parts = PACKAGE, name.split(".")
    while parts and (path / parts[0]).is_dir():
        path /= parts.pop(0)
    if not parts:
        return True
    module = path / f"{parts[0]}.py"
    if not module.is_file():
        return False
    body: list[ast.stmt] = tree_of(module).body
    for part in parts[1:]:
        found = next((node for node in body if getattr(node, "name", None) == part), None)
        if found is None:
            return False
        body = getattr(found, "body", [])
    return True
