"""Files and folders that are whole or absent."""

from __future__ import annotations

import json

import numpy as np
import pytest

from llmstack.engine.atomic import finite_or_none, recover_folders, write_folder, write_json, write_text


def test_numbers_json_cannot_hold_become_null(tmp_path):
    value = {"a": float("nan"), "b": [1.5, float("inf")], "c": ({"d": -float("inf")}, "text", None, True, 3)}
    write_json(tmp_path / "x.json", value)
    read = json.loads((tmp_path / "x.json").read_text(), parse_constant=pytest.fail)
    assert read == {"a": None, "b": [1.5, None], "c": [{"d": None}, "text", None, True, 3]}
    assert finite_or_none(float(np.float32(2.0))) == 2.0


def test_text_replaces_the_old_and_leaves_nothing_beside(tmp_path):
    for text in ("one", "zwölf"):
        write_text(tmp_path / "x.txt", text)
    assert (tmp_path / "x.txt").read_text(encoding="utf-8") == "zwölf"
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt"]


def test_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "final"

    def half(folder):
        (folder / "a").write_text("new")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        write_folder(target, half)
    assert not target.exists()
    write_folder(target, lambda folder: (folder / "a").write_text("1"))
    with pytest.raises(RuntimeError):
        write_folder(target, half)
    assert (target / "a").read_text() == "1"
    write_folder(target, lambda folder: (folder / "b").write_text("2"))
    assert [path.name for path in target.iterdir()] == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_recovery_puts_a_replaced_folder_back_and_clears_the_rest(tmp_path):
    for name in (".tmp-final", ".replaced-final", ".tmp-other", ".replaced-there", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / ".replaced-final" / "old").write_text("old")
    (tmp_path / "there" / "new").write_text("new")
    recover_folders(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["final", "there"]
    assert (tmp_path / "final" / "old").exists() and (tmp_path / "there" / "new").exists()
    recover_folders(tmp_path / "missing")
