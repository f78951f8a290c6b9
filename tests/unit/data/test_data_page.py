"""docs/data.md: its examples are read, its tables are complete."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from pydantic import TypeAdapter

from llmstack.catalog import SOURCES
from llmstack.config.data import AnySource
from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.kinds import KINDS, RowReader
from tests.meta.source import ROOT

PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8").partition("## Sources and record kinds")[2]
EXAMPLES = [
    yaml.safe_load(text)["data"]
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    for text in re.split(r"^(?=data:)", block, flags=re.MULTILINE)
    if text.startswith("data:")
]


def first_column(heading: str) -> set[str]:
    table = PAGE.partition(f"| `{heading}` |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["source"])
def test_examples_of_sources_can_be_decoded(example: dict) -> None:
    assert TypeAdapter(AnySource).validate_python(example).source == example["source"]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


def test_examples_of_preferences_are_read() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    rows = [json.loads(text) for text in re.split(r"\n(?=\{)", block.strip())]
    fields = FieldMap()
    found = [RowReader("preference", fields).record(FieldRow(row, "page", fields)) for row in rows]
    assert len(found) == 3
    assert {(record.prompt_messages, record.chosen, record.rejected) for record in found} == {
        (found[0].prompt_messages, "2 and 3.", "4 and 6.")
    }


def test_tables_are_complete() -> None:
    assert first_column("source") == {entry.name for entry in SOURCES if not entry.name.startswith("stdlib_")}
    assert first_column("record") == set(KINDS)
    for name, kind in KINDS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` | "))
        assert all(f"`{field}`" in row for field in (*kind.needed, *kind.optional))
