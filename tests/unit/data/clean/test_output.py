from __future__ import annotations

import json

import pytest
import zstandard

from llmstack.data.clean.output import Writer
from tests.unit.data.clean.corpus import document

DOCUMENTS = [document(text, number) for number, text in enumerate(("one\nline", "zwei\u2028 ü", '"three"', "{}", "5"))]


def rows(raw: bytes) -> list[tuple[str, str]]:
    return [(row["text"], row["where"]) for row in map(json.loads, raw.decode().split("\n")[:-1])]


def test_one_file_holds_every_document_in_order(tmp_path):
    with Writer(tmp_path, None) as writer:
        writer.write(DOCUMENTS[:2])
        writer.write(DOCUMENTS[2:])
    assert [path.name for path in writer.paths] == ["data.jsonl"]
    assert rows(writer.paths[0].read_bytes()) == [(item.text, item.where) for item in DOCUMENTS]
    assert writer.num_documents == 5


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_shards_take_documents_in_turn(tmp_path, shards):
    with Writer(tmp_path, shards) as writer:
        writer.write(DOCUMENTS)
    assert [path.name for path in writer.paths] == [f"part-{number:05d}.jsonl.zst" for number in range(shards)]
    for number, path in enumerate(writer.paths):
        with path.open("rb") as file:
            raw = zstandard.ZstdDecompressor().stream_reader(file).read()
        assert rows(raw) == [(item.text, item.where) for item in DOCUMENTS[number::shards]]
