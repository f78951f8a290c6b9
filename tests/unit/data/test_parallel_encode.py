from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import signal
import time
from collections.abc import Iterable, Iterator

import pytest

from llmstack.data import parallel_encode
from llmstack.data import workers as workers_module
from llmstack.data.documents import Documents, Encoded
from llmstack.data.encode import ENCODERS
from llmstack.data.parallel_encode import encode_records
from llmstack.data.records import MessagesRecord, PreferenceRecord, PromptRecord, Record, ResponseRecord, TextRecord
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError, LlmstackError
from tests.unit.data.test_documents import assert_same

CHUNK = 10


def records_of(kind: str, count: int = 45) -> list[Record]:
    words = [chr(97 + number % 26) * (number % 7) for number in range(count)]
    if kind == "text":
        return [TextRecord(word, where=f"caf\udce9:{number}") for number, word in enumerate(words)]
    if kind == "chat":
        return [ResponseRecord(word, word + "z", where=f"é:{number}") for number, word in enumerate(words)]
    return [PreferenceRecord(w, w or "y", "yz"[n % 2], n / 4, where=f"x:{n}") for n, w in enumerate(words)]


class Counted(Iterable[Record]):
    """Records that know how many were taken."""

    def __init__(self, records: Iterable[Record], *, pause: float = 0.0) -> None:
        self.taken, self._records, self._pause = 0, records, pause

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            self.taken += 1
            time.sleep(self._pause)
            yield record


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(parallel_encode, "_CHUNK_RECORDS", CHUNK)


def together(chunks: Iterable[Encoded]) -> Documents:
    return Documents.of(chunks)


@pytest.mark.parametrize(
    ("kind", "workers"),
    [("text", 0), ("chat", 0), ("pairs", 0), ("text", 2), ("chat", 1), ("pairs", 2), ("chat", None)],
)
def test_the_result_is_that_of_one_chunk(kind, workers, letters: Tokenizer, monkeypatch) -> None:
    monkeypatch.setattr(parallel_encode, "_CHARS_HERE", 60)  # with None the first records stay here
    started = []
    pool = workers_module.ProcessPoolExecutor
    monkeypatch.setattr(
        workers_module, "ProcessPoolExecutor", lambda count, **o: (started.append(count), pool(count, **o))[1]
    )
    records = records_of(kind)
    chunks = list(encode_records(iter(records), kind, letters, workers=workers))
    assert_same(together(chunks), together([ENCODERS[kind](records, letters)]))
    assert started == ([] if workers in (0, 1) else [os.cpu_count() if workers is None else workers])
    assert [chunk.losses.records for chunk in chunks] == [CHUNK] * 4 + [5]


def test_small_data_starts_no_process(letters: Tokenizer, monkeypatch) -> None:
    monkeypatch.setattr(workers_module, "ProcessPoolExecutor", None)
    records = records_of("text")
    found = together(encode_records(records, "text", letters))
    assert_same(found, together([ENCODERS["text"](records, letters)]))


def test_no_record_gives_no_chunk(letters: Tokenizer) -> None:
    assert list(encode_records([], "text", letters)) == list(encode_records([], "text", letters, workers=0)) == []


def test_chunks_are_also_bounded_in_characters(letters: Tokenizer, monkeypatch) -> None:
    monkeypatch.setattr(parallel_encode, "_CHUNK_CHARS", 100)
    for record in (
        TextRecord("a" * 60),
        ResponseRecord("a" * 30, "b" * 30),
        PreferenceRecord("a" * 20, "b" * 20, "c" * 20),
    ):
        chats = MessagesRecord(ResponseRecord("a" * 30, "b" * 30).messages)
        assert [len(chunk) for chunk in parallel_encode._chunks([record, chats] * 2)] == [2, 2]
    assert [len(chunk) for chunk in parallel_encode._chunks([PromptRecord("a" * 60)] * 3)] == [2, 1]


@pytest.mark.parametrize("workers", [0, 2, None])
def test_errors_come_as_they_are(workers, letters: Tokenizer, monkeypatch) -> None:
    monkeypatch.setattr(parallel_encode, "_CHARS_HERE", 60)
    records = [*records_of("text", 33), PromptRecord("a", where="here:34"), *records_of("text", 20)]
    with pytest.raises(DataError) as wanted:
        ENCODERS["text"](records, letters)
    with pytest.raises(DataError) as caught:
        list(encode_records(records, "text", letters, workers=workers))
    assert str(caught.value) == str(wanted.value)
    assert str(caught.value).startswith("here:34: expected TextRecord")


def test_an_error_of_the_source_comes_as_it_is_and_ends_the_workers(letters: Tokenizer) -> None:
    def source() -> Iterator[Record]:
        yield from records_of("text", 25)
        raise DataError("file:26: broken")

    with pytest.raises(DataError, match="^file:26: broken$"):
        list(encode_records(source(), "text", letters, workers=2))
    assert multiprocessing.active_children() == []


def test_a_killed_worker_is_told_with_a_fix(letters: Tokenizer) -> None:
    chunks = encode_records(records_of("text", 500), "text", letters, workers=2)
    next(chunks)
    for worker in multiprocessing.active_children():
        os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(LlmstackError, match="expected processes that live until the work is done"):
        list(chunks)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(("workers", "ahead"), [(0, 0), (2, 8 * CHUNK), (None, 13 * CHUNK)])
def test_the_source_is_not_read_far_ahead(workers, ahead, letters: Tokenizer, monkeypatch) -> None:
    monkeypatch.setattr(parallel_encode, "_CHARS_HERE", 5 * CHUNK * 8)  # None: five chunks of records of 8 characters
    monkeypatch.setattr(parallel_encode.os, "cpu_count", lambda: 2)
    source = Counted(TextRecord("a" * 8) for _ in range(1000))
    chunks = encode_records(source, "text", letters, workers=workers)
    assert source.taken == 0
    for number, _ in enumerate(chunks, start=1):
        assert source.taken <= number * CHUNK + ahead
        if number == 20:
            break
    chunks.close()  # left early: no process stays
    assert multiprocessing.active_children() == []
    assert source.taken < 1000


class Terminal(io.StringIO):
    """What a user looks at."""

    def isatty(self) -> bool:
        return True


def shown(letters: Tokenizer, stream: io.StringIO, *, pause: float) -> str:
    records = Counted(records_of("text"), pause=pause)
    with contextlib.redirect_stderr(stream):
        list(encode_records(records, "text", letters, workers=0, show="encoding docs"))
    return stream.getvalue()


def test_a_progress_bar_comes_after_a_second_and_on_a_terminal_only(letters: Tokenizer) -> None:
    assert shown(letters, Terminal(), pause=0.0) == ""
    text = shown(letters, Terminal(), pause=0.03)  # 1.35 s
    assert "encoding docs" in text and "tokens" in text
    assert shown(letters, io.StringIO(), pause=0.03) == ""
