from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llmstack.config.data import MegatronConfig
from llmstack.data import megatron
from llmstack.data.indexed_writer import IndexedWriter
from llmstack.data.megatron import MegatronTokens
from llmstack.data.records import TokensRecord
from llmstack.errors import DataError


def source(prefix: Path) -> MegatronTokens:
    return MegatronTokens(MegatronConfig(source="megatron", path=str(prefix)), seed=0)


def write(prefix: Path, *documents: list[list[int]]) -> Path:
    with IndexedWriter(prefix, np.dtype("uint16")) as writer:
        for sequences in documents:
            for ids in sequences:
                writer.add(np.array(ids))
            writer.end_document()
    return prefix


def test_a_document_is_all_its_sequences(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(megatron, "_RELEASE_TOKENS", 2)
    prefix = write(tmp_path / "a", [[1, 2], [3]], [[]], [[4, 5, 6]])
    found = list(source(prefix).records())
    assert [record.ids.tolist() for record in found] == [[1, 2, 3], [], [4, 5, 6]]
    assert found[2] == TokensRecord(np.array([4, 5, 6])) and found[2].where == f"{prefix}:2"
    assert list(source(prefix).records()) == found


def test_no_document(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected at least one document, got an empty data set"):
        list(source(write(tmp_path / "a")).records())


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    prefix = write(tmp_path / "a", [[1, 2]])
    (tmp_path / "a.bin").write_bytes(b"\0\0")
    with pytest.raises(DataError, match=r"a\.bin: expected 4 bytes"):
        list(source(prefix).records())


def test_a_fingerprint_follows_both_files(tmp_path: Path) -> None:
    found = {
        source(write(tmp_path / "a", *documents)).fingerprint()
        for documents in ([[[1], [2]]], [[[1]], [[2]]], [[[3, 4]]])
    }
    assert len(found) == 3
