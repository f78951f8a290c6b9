from __future__ import annotations

import json
import math

import pytest

from llmstack.errors import UserError
from llmstack.evaluation.report import Report, check_output, write_rows


def test_the_table_has_a_line_a_number():
    assert Report("k", {"rows": 12, "accuracy": 0.25}).table() == "rows              12\naccuracy      0.2500\n"


def test_numbers_and_rows_are_files(tmp_path):
    report = Report("k", {"rows": 1, "nll": math.nan}, [{"a": "\u00e9", "b": -math.inf}])
    report.write(numbers=tmp_path / "n.json", rows=tmp_path / "r.jsonl", about={"data": "d"})
    assert json.loads((tmp_path / "n.json").read_text()) == {"kind": "k", "data": "d", "rows": 1, "nll": None}
    assert (tmp_path / "r.jsonl").read_text(encoding="utf-8") == '{"a": "\u00e9", "b": null}\n'


def test_what_nobody_asked_for_is_not_written(tmp_path):
    Report("k", {"rows": 1}).write(numbers=None, rows=None, about={})
    assert list(tmp_path.iterdir()) == []


def test_rows_replace_a_file(tmp_path):
    (tmp_path / "a").write_text("old")
    write_rows(tmp_path / "a", [{"x": 1}, {"x": 2}])
    assert (tmp_path / "a").read_text() == '{"x": 1}\n{"x": 2}\n'


def test_files_that_cannot_be_written_are_refused_early(tmp_path):
    assert check_output(None, option="--out") is None
    assert check_output(str(tmp_path / "a"), option="--out") == tmp_path / "a"
    with pytest.raises(UserError, match="--out: expected a file, got the folder"):
        check_output(str(tmp_path), option="--out")
    with pytest.raises(UserError, match="--json: expected a file in an existing folder, got .*Make .*no first"):
        check_output(str(tmp_path / "no" / "a"), option="--json")
