from __future__ import annotations

from pathlib import Path

import pytest

from llmstack.data.files import files_fingerprint, is_text, read_text, resolve_files
from llmstack.errors import DataError


def test_glob_crosses_folders(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.txt").write_text("a")
    assert resolve_files(str(tmp_path / "**" / "*.txt")) == [tmp_path / "x" / "a.txt"]


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a readable file, got Is a directory"):
        read_text(tmp_path)


def test_text_has_unix_line_ends_and_no_mark(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree")
    assert read_text(tmp_path / "a.txt") == "one\ntwo\nthree"


def test_a_fingerprint_is_of_contents_in_order(tmp_path: Path) -> None:
    for name, text in (("a.txt", "one"), ("b.txt", "two"), ("c.md", "onetwo")):
        (tmp_path / name).write_text(text)
    both = files_fingerprint(str(tmp_path / "*.txt"))
    assert both == files_fingerprint(str(tmp_path / "c.md"))
    assert both != files_fingerprint(str(tmp_path / "a.txt"))


def test_half_a_surrogate_pair_is_no_text() -> None:
    assert is_text("plain") and is_text("na\u00efve \U0001f600")
    assert not is_text("a\ud83d")
