from __future__ import annotations

import numpy as np

from llmstack.data.clean import batches
from llmstack.data.clean.batches import BatchWork, Spill, in_batches
from llmstack.data.clean.step import Change, CorpusStep, Decision, Step, drop, keep
from llmstack.data.clean.tally import Excerpts
from tests.unit.data.clean.corpus import document

EXCERPTS = Excerpts(limit=3, max_chars=20)


class Shorten(Step):
    """Cuts the last character off; drops what begins with x."""

    def apply(self, document):
        return drop("x") if document.text.startswith("x") else keep(document.text[:-1], Change("cut", 1))


class Lengths(CorpusStep):
    """Remembers lengths."""

    def scan(self, document):
        return np.array([len(document.text)])

    def collect(self, numbers, scans):
        raise AssertionError("workers never collect")

    def decide(self):
        return Decision(Shorten())


def test_a_batch_is_full_with_documents_or_characters(monkeypatch):
    monkeypatch.setattr(batches, "_BATCH_DOCUMENTS", 3)
    monkeypatch.setattr(batches, "_BATCH_CHARS", 10)
    documents = [document("a" * size, number) for number, size in enumerate((1, 1, 1, 4, 30, 2))]
    sizes = [[len(item.text) for item in batch] for batch in in_batches(iter(documents))]
    assert sizes == [[1, 1, 1], [4, 30], [2]]
    assert list(in_batches([])) == []


def test_documents_go_through_the_steps_in_order():
    work = BatchWork((Shorten(), Shorten()), Lengths(), EXCERPTS)
    result = work([document("abcd", 4), document("xabc", 5), document("efg", 6)])
    assert [(item.number, item.where, item.text) for item in result.documents] == [
        (4, "file:5", "ab"),
        (6, "file:7", "e"),
    ]
    assert [scan.tolist() for scan in result.scans] == [[2], [1]]
    assert [(tally.documents_in, tally.documents_out) for tally in result.tallies] == [(3, 2), (2, 2)]
    assert (result.num_taken, result.scan_cpu_seconds > 0) == (3, True)


def test_a_document_without_text_is_dropped_after_any_step():
    result = BatchWork((Shorten(),), None, EXCERPTS)([document("a"), document(" \n "), document("ab")])
    assert [item.text for item in result.documents] == ["a"]
    assert {reason: finding.documents for reason, finding in result.tallies[0].dropped.items()} == {
        "no text left": 1,
        "no text": 1,
    }
    assert result.tallies[0].changed["cut"].documents == 3
    assert result.scans == []


def test_what_waits_on_disk_comes_back_in_order_and_is_removed(tmp_path):
    spill = Spill(tmp_path / "spill")
    written = [[document(f"text {number}\u2028é", number)] * 2 for number in range(3)]
    for batch in (*written, []):
        spill.write(batch)
    assert list(spill.read()) == written
    assert list(tmp_path.iterdir()) == []
