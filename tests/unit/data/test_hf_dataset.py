from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from llmstack.config.data import HfDatasetConfig
from llmstack.data.hf_dataset import HfDataset
from llmstack.data.records import Message, MessagesRecord, Record, ResponseRecord, TextRecord
from llmstack.errors import DataError

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def nothing_is_downloaded(monkeypatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a data set on this machine needs no network")

    monkeypatch.setattr("socket.socket.connect", refuse)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """Two splits saved by the library, in several files each."""
    datasets.disable_progress_bars()
    folder = tmp_path_factory.mktemp("data") / "saved"
    train = {"text": [f"t{number}" for number in range(10)], "id": list(range(10))}
    splits = {"train": datasets.Dataset.from_dict(train), "test": datasets.Dataset.from_dict({"text": ["e"]})}
    datasets.DatasetDict(splits).save_to_disk(str(folder), num_shards={"train": 3, "test": 1})
    return folder


def source(path: Path, **options: Any) -> HfDataset:
    values = {"record": "text", **options}
    return HfDataset(HfDatasetConfig(source="hf_dataset", path=str(path), **values), seed=0)


def records(path: Path, **options: Any) -> list[Record]:
    return list(source(path, **options).records())


def test_a_saved_split(saved: Path) -> None:
    found = records(saved, split="train")
    assert found == [TextRecord(f"t{number}") for number in range(10)]
    assert found[3].where == f"{saved / 'train'}:4"
    assert records(saved, split="test") == [TextRecord("e")]
    assert records(saved / "train") == found
    again = source(saved, split="train")
    assert list(again.records()) == list(again.records()) == found


def test_conversations_keep_their_form(tmp_path: Path) -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "u", "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "content": "a", "tool_calls": []},
    ]
    datasets.Dataset.from_list([{"messages": turns}] * 2).save_to_disk(str(tmp_path / "d"))
    found = records(tmp_path / "d", record="messages")
    assert [message.as_turn() for message in found[1].messages] == [
        {"role": "user", "content": "u"},
        turns[1],
        {"role": "assistant", "content": "a"},
    ]


def test_a_fingerprint_follows_the_split(saved: Path, tmp_path: Path) -> None:
    assert source(saved, split="train").fingerprint() == source(saved / "train").fingerprint()
    assert source(saved, split="train").fingerprint() != source(saved, split="test").fingerprint()
    (tmp_path / "train.jsonl").write_text('{"text": "a"}')
    before = source(tmp_path).fingerprint()
    (tmp_path / "train.jsonl").write_text('{"text": "b"}')
    assert source(tmp_path).fingerprint() != before


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (None, "expected one of its splits train, test, got no `split`. Choose one of these"),
        ("tran", "expected one of its splits train, test, got 'tran'. Did you mean `train`"),
    ],
)
def test_a_split_must_be_meant(saved: Path, split: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        records(saved, split=split)


def test_a_data_set_saved_without_splits_has_none(saved: Path) -> None:
    with pytest.raises(DataError, match="expected no `split` for a data set that was saved without splits"):
        records(saved / "train", split="train")


@pytest.mark.parametrize("file", ["state.json", "dataset_info.json", "data-00000-of-00001.arrow"])
def test_a_damaged_data_set_is_named(tmp_path: Path, file: str) -> None:
    datasets.Dataset.from_dict({"text": ["a"] * 100}).save_to_disk(str(tmp_path / "d"))
    (tmp_path / "d" / file).write_text("{")
    with pytest.raises(DataError, match=r"d: expected a data set that save_to_disk made, got .* save it again"):
        records(tmp_path / "d")


def test_a_damaged_list_of_splits_is_named(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text("[]")
    with pytest.raises(DataError, match=r"dataset_dict\.json: expected a list of splits"):
        records(tmp_path, split="train")


def test_rows_without_a_field_are_named(saved: Path) -> None:
    with pytest.raises(DataError, match=r"train:1: expected field 'prompt', got fields 'text', 'id'"):
        records(saved, split="train", record="prompt")
    mapped = records(saved, split="train", record="prompt_response", fields={"prompt": "{id}?", "response": "text"})
    assert mapped[2] == ResponseRecord("2?", "t2")
    with pytest.raises(DataError, match=r"train:1: expected a record of at most 1 bytes"):
        records(saved, split="train", max_record_bytes=1)


def write(path: Path, *texts: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table({"text": list(texts)}), path)
    else:
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def test_files_named_after_their_split(tmp_path: Path) -> None:
    write(tmp_path / "data" / "train-00000-of-00002.parquet", "a", "b")
    write(tmp_path / "data" / "train-00001-of-00002.parquet", "c")
    write(tmp_path / "data" / "train_sft-00000-of-00001.parquet", "s")
    write(tmp_path / "data" / "test-00000-of-00001.parquet", "d")
    write(tmp_path / "dev.jsonl", "e")
    write(tmp_path / "other" / "validation" / "0000.parquet", "f")
    write(tmp_path / "README.md", "no data")
    write(tmp_path / ".cache.jsonl", "no data")
    for split, texts in (("train", "abc"), ("train_sft", "s"), ("test", "d"), ("dev", "e"), ("validation", "f")):
        assert records(tmp_path, split=split) == [TextRecord(text) for text in texts]
    with pytest.raises(DataError, match=r"expected files of the split 'eval' .* got data/test-00000-of-00001\.parquet"):
        records(tmp_path, split="eval")
    with pytest.raises(DataError, match="expected one of its splits test, train, validation, got no `split`"):
        records(tmp_path)


@pytest.mark.parametrize(
    "names", [("a.jsonl", "b.jsonl"), ("train-0.jsonl", "train-1.jsonl"), ("x.jsonl", "y.parquet")]
)
def test_a_folder_with_one_split_needs_no_name(tmp_path: Path, names: tuple[str, str]) -> None:
    write(tmp_path / names[0], "a")
    write(tmp_path / names[1], "b")
    assert records(tmp_path) == [TextRecord("a"), TextRecord("b")]


def test_files_of_a_split_and_others_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", "a")
    write(tmp_path / "test.jsonl", "b")
    with pytest.raises(DataError, match="expected one of its splits others, test, got no `split`"):
        records(tmp_path)


def test_a_folder_without_data(tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "a")
    with pytest.raises(DataError, match="expected what save_to_disk made, or .parquet or .jsonl files, got neither"):
        records(tmp_path)
    write(tmp_path / "train.jsonl")
    with pytest.raises(DataError, match="expected at least one row, got an empty data set"):
        records(tmp_path)


def test_messages_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"messages": [{"role": "user", "content": "u"}]}')
    assert records(tmp_path, record="messages") == [MessagesRecord((Message("user", "u"),))]
