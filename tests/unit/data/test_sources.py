from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from llmstack.config.data import ConcatConfig, JsonlConfig, ParquetConfig, TextFileConfig
from llmstack.data.records import Record, ResponseRecord, TextRecord
from llmstack.data.sources import Concat, Jsonl, ParquetFiles, TextFiles
from llmstack.errors import DataError
from tests.unit.data.test_files import pack


def jsonl(tmp_path: Path, *lines: object, record: str, **options: object) -> list[Record]:
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    config = JsonlConfig(source="jsonl", path=str(path), record=record, **options)
    return list(Jsonl(config, seed=0).records())


def texts(path: object, **options: object) -> list[Record]:
    return list(TextFiles(TextFileConfig(source="text", path=str(path), **options), seed=0).records())


def test_text_files_are_documents_in_name_order(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("second\r\nline")
    (tmp_path / "a.txt").write_text("first")
    (tmp_path / "empty.txt").write_text(" \n")
    assert texts(tmp_path / "*.txt") == [TextRecord("first"), TextRecord("second\nline")]


def test_text_blocks_know_their_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\none\nstill one\n\n  \ntwo\n")
    found = texts(tmp_path / "a.txt", split_documents="blank_line")
    assert [(record.text, record.where.rpartition(":")[2]) for record in found] == [
        ("one\nstill one", "2"),
        ("two", "6"),
    ]


def test_missing_file() -> None:
    with pytest.raises(DataError, match=r"no/such\.txt: expected an existing file or a glob"):
        texts("no/such.txt")


def test_folder_instead_of_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a file or a glob, got a folder"):
        texts(tmp_path)


def test_only_empty_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n \n")
    with pytest.raises(DataError, match="expected text, got only empty files"):
        texts(tmp_path / "a.txt")


def test_not_utf8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\nna\xefve")
    with pytest.raises(DataError, match=r"a\.txt:2: expected UTF-8 text, got byte 0xef"):
        texts(tmp_path / "a.txt")


def test_jsonl_record_knows_file_and_line(tmp_path: Path) -> None:
    found = jsonl(tmp_path, "", {"text": "t"}, record="text")
    assert found[0].where == f"{tmp_path / 'data.jsonl'}:2"


def test_jsonl_line_separator_inside_a_string_is_no_line_end(tmp_path: Path) -> None:
    line = json.dumps({"text": "a\u2028b"}, ensure_ascii=False)
    assert jsonl(tmp_path, line, record="text") == [TextRecord("a\u2028b")]


def test_jsonl_rows_become_records_of_its_kind(tmp_path: Path) -> None:
    fields = {"prompt": "question", "response": "reply"}
    found = jsonl(tmp_path, {"question": "p", "reply": "r"}, record="prompt_response", fields=fields)
    assert found == [ResponseRecord("p", "r")]
    with pytest.raises(DataError, match=r"data\.jsonl:2: expected field 'reply', got fields 'question'"):
        jsonl(tmp_path, "", {"question": "p"}, record="prompt_response", fields=fields)


@pytest.mark.parametrize("margin", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_jsonl_refuses_a_margin_that_is_no_number(tmp_path: Path, margin: str) -> None:
    line = f'{{"prompt": "p", "chosen": "c", "rejected": "r", "margin": {margin}}}'
    with pytest.raises(DataError, match=r"data\.jsonl:1: expected a finite number in 'margin', got -?(nan|inf)"):
        jsonl(tmp_path, line, record="preference")


def test_jsonl_refuses_names_before_it_reads() -> None:
    config = JsonlConfig(source="jsonl", path="no/such.jsonl", record="text", fields={"output": "x"})
    with pytest.raises(DataError, match="fields: expected names among text for record 'text', got output"):
        Jsonl(config, seed=0)


def test_jsonl_of_mixed_kinds_names_the_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.jsonl:2: expected field 'text'.* fit `record: prompt_response`"):
        jsonl(tmp_path, {"text": "a"}, {"prompt": "p", "response": "r"}, record="text")


def test_parquet_rows_become_records(tmp_path: Path) -> None:
    for name, texts_ in (("b", ["c"]), ("a", ["a", "b"])):
        parquet.write_table(pyarrow.table({"body": texts_, "id": [1] * len(texts_)}), tmp_path / f"{name}.parquet")

    def source(**options: object) -> ParquetFiles:
        return ParquetFiles(ParquetConfig(source="parquet", path=str(tmp_path / "*"), **options), seed=0)

    found = source(record="text", fields={"text": "body"})
    assert list(found.records()) == list(found.records()) == [TextRecord("a"), TextRecord("b"), TextRecord("c")]
    with pytest.raises(DataError, match=r"a\.parquet:1: expected field 'text', got fields 'body', 'id'"):
        list(source(record="text").records())
    with pytest.raises(DataError, match=r"a\.parquet:1: expected a string in 'id', got int 1"):
        list(source(record="text", fields={"text": "id"}).records())
    before = found.fingerprint()
    parquet.write_table(pyarrow.table({"body": pyarrow.array([], "string")}), tmp_path / "a.parquet")
    assert found.fingerprint() != before
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(DataError, match="expected at least one row, got an empty data set"):
        list(found.records())


def test_concatenated_sources_follow_each_other(tmp_path: Path) -> None:
    for name in "ba":
        (tmp_path / f"{name}.txt").write_text(name)

    def source(*names: str) -> Concat:
        of = {name: {"source": "text", "path": str(tmp_path / f"{name}.txt")} for name in names}
        return Concat(ConcatConfig.model_validate({"source": "concat", "of": of}), seed=0)

    assert list(source("b", "a").records()) == [TextRecord("b"), TextRecord("a")]
    assert source("b", "a").fingerprint() == source("b", "a").fingerprint() != source("a", "b").fingerprint()
    with pytest.raises(DataError, match=r"c\.txt: expected an existing file"):
        list(source("a", "c").records())


def test_jsonl_empty_data_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected at least one JSON object, got an empty data set"):
        jsonl(tmp_path, "", " ", record="text")


def test_records_come_one_at_a_time_and_the_same_again(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n' + " " * (2 << 20) + "\nbroken\n")
    source = Jsonl(JsonlConfig(source="jsonl", path=str(tmp_path / "a.jsonl"), record="text"), seed=0)
    for _ in range(2):
        records = iter(source.records())
        assert [next(records), next(records)] == [TextRecord("a"), TextRecord("b")]
        with pytest.raises(DataError, match=r"a\.jsonl:4: expected one JSON object"):
            next(records)
    (tmp_path / "a.txt").write_text("a\n\nb")
    config = TextFileConfig(source="text", path=str(tmp_path / "a.txt"), split_documents="blank_line")
    blocks = TextFiles(config, seed=0)
    assert list(blocks.records()) == list(blocks.records()) == [TextRecord("a"), TextRecord("b")]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, ending: str) -> None:
    rows, path = 60_000, tmp_path / f"a.jsonl{ending}"
    data = "".join(json.dumps({"text": f"{row} " * 100}) + "\n" for row in range(rows)).encode()
    path.write_bytes(data) if not ending else pack(path, data)
    size = len(data)
    assert size > 30_000_000
    del data
    source = Jsonl(JsonlConfig(source="jsonl", path=str(path), record="text"), seed=0)
    tracemalloc.start()
    try:
        assert sum(1 for _ in source.records()) == rows
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 4


def test_a_row_of_ten_megabytes_is_read(tmp_path: Path) -> None:
    text = "word " * 2_000_000
    assert jsonl(tmp_path, {"text": text}, {"text": "b"}, record="text") == [TextRecord(text), TextRecord("b")]


def test_what_is_longer_than_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.jsonl:2: expected a record of at most 20 bytes \(max_record_bytes\)"):
        jsonl(tmp_path, {"text": "a"}, {"text": "a" * 20}, record="text", max_record_bytes=20)
    (tmp_path / "a.txt").write_text("one\ntwo\n\nthree\nfour")
    path = tmp_path / "a.txt"
    assert len(texts(path, split_documents="blank_line", max_record_bytes=10)) == 2
    with pytest.raises(DataError, match=r"a\.txt:4: expected a record of at most 9 bytes"):
        texts(path, split_documents="blank_line", max_record_bytes=9)
    assert len(texts(path, max_record_bytes=19)) == 1
    with pytest.raises(DataError, match=r"a\.txt:1: expected a record of at most 18 bytes"):
        texts(path, max_record_bytes=18)


def test_a_fingerprint_follows_the_contents_of_the_files(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    source = TextFiles(TextFileConfig(source="text", path=str(path)), seed=0)
    before = source.fingerprint()
    assert source.fingerprint() == before
    path.write_text("two")
    assert source.fingerprint() != before
