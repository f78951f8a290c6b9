from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llmstack.data.documents import Documents, Encoded, Losses, open_documents, write_documents
from llmstack.errors import DataError

WHERES = ["a.txt:1", "ähnlich.txt:2", "\udce4.txt:3"]


def chunks(masked: bool) -> list[Encoded]:
    masks = [[0, 1, 1], [1]], [[0, 1]]
    return [
        Encoded.of(
            [[5, 6, 7], [8]], masks[0] if masked else None, WHERES[:2], Losses(3, {"empty": 1}, {"empty": "x:1"}), [0.5]
        ),
        Encoded.of([[70_000, 9]], masks[1] if masked else None, WHERES[2:], Losses(2, {"empty": 1}, {"empty": "x:9"})),
    ]


@pytest.mark.parametrize("masked", [False, True])
def test_documents_in_files_are_those_in_memory(tmp_path: Path, masked: bool) -> None:
    write_documents(tmp_path, chunks(masked), vocab_size=100_000)
    stored, held = open_documents(tmp_path), Documents.of(chunks(masked))
    for documents in (stored, held):
        assert documents.tokens.tolist() == [5, 6, 7, 8, 70_000, 9]
        assert documents.bounds.tolist() == [0, 3, 4, 6]
        assert documents.lengths.tolist() == [3, 1, 2] and len(documents) == 3
        assert (documents.mask is not None) == masked
        assert documents.margins.tolist() == [0.5]
        assert documents.losses == Losses(5, {"empty": 2}, {"empty": "x:1"})
        assert documents.where(1) == "ähnlich.txt:2"
    if masked:
        assert stored.mask.tolist() == held.mask.tolist() == [0, 1, 1, 1, 0, 1]
    assert stored.where(2) == "?.txt:3"  # what is no text is told as well as can be
    stored.release()
    assert stored.tokens.tolist() == held.tokens.tolist()


def test_a_small_vocabulary_takes_two_bytes_a_token(tmp_path: Path) -> None:
    write_documents(tmp_path, [Encoded.of([[1, 2, 3]], None, ["x"], Losses(1))], vocab_size=300)
    assert (tmp_path / "tokens.bin").stat().st_size == 6


def test_no_documents_at_all(tmp_path: Path) -> None:
    write_documents(tmp_path, [], vocab_size=300)
    assert len(open_documents(tmp_path)) == 0


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    write_documents(tmp_path, chunks(True), vocab_size=100_000)
    (tmp_path / "tokens.bin").write_bytes(b"1234")
    with pytest.raises(DataError, match=r"tokens\.bin: expected 24 bytes"):
        open_documents(tmp_path)


def test_documents_without_a_place_are_numbered() -> None:
    assert Documents(np.arange(3), np.array([0, 2, 3])).where(1) == "document 1"


def test_losses_add_up_and_keep_the_first_example() -> None:
    losses = Losses(records=1)
    losses.add("empty", "a:1")
    losses.join(Losses(4, {"empty": 2, "equal": 1}, {"empty": "b:1", "equal": "b:2"}))
    assert losses == Losses(5, {"empty": 3, "equal": 1}, {"empty": "a:1", "equal": "b:2"})
