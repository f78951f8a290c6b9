from __future__ import annotations

import pytest

from llmstack.errors import UserError
from llmstack.models.new_folder import check_new, new_folder


def fill(path):
    with new_folder(path) as folder:
        assert folder.parent == path.parent  # a rename within one file system
        (folder / "a.txt").write_text("a")
        assert not (path / "a.txt").exists()


@pytest.mark.parametrize("prepare", [lambda path: None, lambda path: path.mkdir()], ids=["missing", "empty"])
def test_it_appears_whole(prepare, tmp_path):
    prepare(tmp_path / "out")
    fill(tmp_path / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a.txt"]


def test_parents_are_made(tmp_path):
    fill(tmp_path / "b" / "c" / "out")
    assert (tmp_path / "b" / "c" / "out" / "a.txt").read_text() == "a"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_on_an_error(error, tmp_path):
    with pytest.raises(error), new_folder(tmp_path / "b" / "out") as folder:
        (folder / "a.txt").write_text("a")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_replaced(tmp_path):
    left = tmp_path / ".tmp-out"
    left.mkdir()
    (left / "half.txt").write_text("half")
    fill(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.txt", "out"]


def test_what_is_there_is_never_touched(tmp_path):
    full, file, link = tmp_path / "full", tmp_path / "file", tmp_path / "link"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    file.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")
    for path in (full, file, link):
        with pytest.raises(UserError, match=f"--out: expected a new or empty folder, got .*{path.name}, "):
            check_new(path)
        with pytest.raises(UserError, match="--out"):
            fill(path)
    assert (full / "mine.txt").read_text() == file.read_text() == "mine"


def test_a_place_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--out: expected a place for a folder"):
        fill(tmp_path / "file" / "out")
