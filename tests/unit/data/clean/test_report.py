from __future__ import annotations

import json

from llmstack.data.clean.pipeline import StepReport
from llmstack.data.clean.report import REPORT_FILES, Report
from llmstack.data.clean.step import Change, drop, keep
from llmstack.data.clean.tally import Excerpts, Tally
from tests.unit.data.clean.corpus import document


def tally(*results) -> Tally:
    found = Tally()
    for number, (text, outcome) in enumerate(results):
        found.add(document(text, number), outcome, Excerpts(3, 40))
    return found


def report(*, nothing: bool = False) -> Report:
    read = tally(("one", keep("one")), ("two `x`", keep("two `x`")), ("three", keep("three")))
    kept = drop("short") if nothing else keep("on", Change("cut", 1, "on"))
    length = tally(("one", kept), ("two `x`", drop("short")), ("three", drop("long")))
    details = {"clusters": 1200, "against": {"quiz": {"too_short": 2}}, "largest_clusters": [["f:1", "f:2"]]}
    steps = [StepReport("read", read), StepReport("length", length, details)]
    return Report({"out": "x"}, steps, ["data.jsonl"], 1.23456)


def test_both_files_say_the_same(tmp_path):
    report().write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == REPORT_FILES
    found = json.loads((tmp_path / "report.json").read_text())
    assert (found["documents_in"], found["documents_out"], found["chars_in"], found["chars_out"]) == (3, 1, 15, 2)
    assert (found["seconds"], found["files"], found["config"]) == (1.235, ["data.jsonl"], {"out": "x"})
    assert [step["kind"] for step in found["steps"]] == ["read", "length"]
    step = found["steps"][1]
    assert step["dropped"]["short"] == {"documents": 1, "examples": [{"where": "file:2", "text": "two `x`"}]}
    assert step["changed"]["cut"] == {"documents": 1, "count": 1, "examples": [{"where": "file:1", "text": "on"}]}
    assert step["details"]["clusters"] == 1200
    text = (tmp_path / "report.md").read_text()
    for line in (
        "1 of 3 documents and 2 of 15 characters are left, after 1.2 seconds.",
        "| length | 3 | 1 | 1 | 2 | 0.0 |",
        "- **1 dropped: short**",
        "  - `file:2`: `` two `x` ``",
        "- **1 × cut** in 1 documents",
        "- clusters: 1,200",
        "- against: quiz too short 2",
        "- kept `f:1`, not `f:2`",
    ):
        assert f"{line}\n" in text
    assert "## read" not in text


def test_the_biggest_reason_is_named():
    assert report(nothing=True).biggest_reason() == ("length", "short", 2)
    assert Report({}, [StepReport("read", Tally())], [], 0.0).biggest_reason() == ("", "", 0)
