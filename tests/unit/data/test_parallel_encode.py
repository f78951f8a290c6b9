from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

from llmstack.data import parallel_encode
from llmstack.data.documents import Documents
from llmstack.data.parallel_encode import encode_records
from llmstack.data.records import MessagesRecord, PreferenceRecord, Record, ResponseRecord, TextRecord
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError

RECORDS: dict[str, list[Record]] = {
    "text": [TextRecord("abc"[: i % 4], where=f"x:{i}") for i in range(40)],
    "chat": [ResponseRecord("a", "bc" * (1 + i % 3), where=f"x:{i}") for i in range(40)],
    "pairs": [PreferenceRecord("a", "b" * (1 + i % 3), "b", i / 8, where=f"x:{i}") for i in range(40)],
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(parallel_encode, "_CHUNK_RECORDS", 7)


def encoded(kind: str, tokenizer: Tokenizer, workers: int | None) -> Documents:
    return Documents.of(encode_records(iter(RECORDS[kind]), kind, tokenizer, workers=workers))


def same(one: Documents, other: Documents) -> bool:
    arrays = ("tokens", "bounds", "mask", "margins")
    pairs = [(getattr(one, name), getattr(other, name)) for name in arrays]
    return all(np.array_equal(a, b) for a, b in pairs) and (one.wheres, one.losses) == (other.wheres, other.losses)


@pytest.mark.parametrize("kind", RECORDS)
def test_the_result_does_not_depend_on_the_processes(kind: str, letters: Tokenizer, monkeypatch) -> None:
    here = encoded(kind, letters, 0)
    assert here.losses.records == 40
    assert same(encoded(kind, letters, 2), here)
    if kind == "text":  # for large data as many workers as cores, behind what was encoded here
        assert same(encoded(kind, letters, None), here)
        monkeypatch.setattr(parallel_encode, "_CHARS_HERE", 20)
        assert same(encoded(kind, letters, None), here)


def test_an_error_in_a_worker_is_the_error(letters: Tokenizer) -> None:
    records = [*RECORDS["text"], ResponseRecord("a", "b", where="x:99")]
    messages = []
    for workers in (0, 1):
        with pytest.raises(DataError, match="x:99: expected TextRecord") as error:
            list(encode_records(records, "text", letters, workers=workers))
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_a_killed_worker_is_told(letters: Tokenizer) -> None:
    def records() -> Iterator[Record]:
        yield from RECORDS["text"]
        for child in parallel_encode.multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)
        yield from RECORDS["text"]

    with pytest.raises(DataError, match="expected the processes that encode to go on, got one that was killed"):
        list(encode_records(records(), "text", letters, workers=1))


@pytest.mark.parametrize("workers", [0, 1])
def test_only_a_few_chunks_are_held(workers: int, letters: Tokenizer) -> None:
    read = 0

    def records() -> Iterator[Record]:
        nonlocal read
        for record in RECORDS["text"] * 5:
            read += 1
            yield record

    chunks = encode_records(records(), "text", letters, workers=workers)
    next(chunks)
    assert read <= 7 * (2 * workers + 1)
    chunks.close()


def test_a_chunk_ends_when_its_texts_are_long(letters: Tokenizer, monkeypatch) -> None:
    monkeypatch.setattr(parallel_encode, "_CHUNK_CHARS", 4)
    sizes = [chunk.losses.records for chunk in encode_records(RECORDS["text"][3:8], "text", letters, workers=0)]
    assert sizes == [3, 2]
    conversation = MessagesRecord(ResponseRecord("abc", "ab").messages)
    assert parallel_encode._size(conversation) == parallel_encode._size(TextRecord("abcab")) == 5
