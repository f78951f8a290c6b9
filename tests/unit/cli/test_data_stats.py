from __future__ import annotations

import json

import pytest

from llmstack.cli.data_stats import histogram
from llmstack.cli.main import main
from llmstack.data.statistics import Lengths


def stats(capsys, *argv: str) -> str:
    assert main(["data", "stats", *argv]) == 0
    return capsys.readouterr().out


def test_each_option_has_its_figures(recipe, capsys):
    text = stats(capsys, recipe)
    general, domain, evaluation, _, plan, *rest = text.split("\n\n")
    assert general.splitlines()[0] == "stages.base.data.parts.general.data"
    assert "  records   12 of 13 kept\n" in general
    assert "  left out  1 (7.7 %): empty, the first is general.jsonl:13\n" in general
    assert " % of their places filled\n" in general and "  trained   " in general and "max " in general
    assert domain.startswith("stages.base.data.parts.domain.data") and evaluation.startswith(
        "stages.base.eval_data.of.general"
    )
    pairs = next(block for block in rest if block.startswith("stages.rm.data"))
    assert "  longer    the chosen one in 80.0 %, neither in 0.0 %\n" in pairs and "  trained" not in pairs
    assert "equal_answers, the first is pairs.jsonl:6" in pairs
    first, _, names, *rows = plan.splitlines()
    assert first.startswith("stages.base.data: ") and first.endswith(" steps of 4 rows")
    assert names.split() == ["budget", "general", "domain", "all"]
    assert rows[0].split() == ["0", "%", "90.0", "%", "0", "10.0", "%", "0", "0"]
    assert [row.split()[0] for row in rows] == ["0", "25", "50", "75", "100", "epochs"]


def test_json_has_the_same_figures(recipe, capsys):
    found = json.loads(stats(capsys, recipe, "--json"))
    assert list(found) == ["base", "sft", "rm", "policy"]
    general = found["base"]["parts"]["stages.base.data.parts.general.data"]
    assert (general["records"], general["kept"], general["left_out"]["empty"]["first"]) == (13, 12, "general.jsonl:13")
    assert sum(count for *_, count in general["lengths"]["histogram"]) == 12
    assert found["sft"]["blend"] is None and "curve" not in found["base"]
    moments, epochs = found["base"]["blend"]["moments"], found["base"]["blend"]["epochs"]
    assert [moment["budget_ratio"] for moment in moments] == [0, 0.25, 0.5, 0.75, 1]
    assert moments[0]["shares"] == pytest.approx({"general": 0.9, "domain": 0.1})
    last = moments[-1]
    # weights stop changing at 1000 tokens, where the budget ends
    assert last["tokens"] >= 1000 and last["shares"]["domain"] == pytest.approx(0.8, abs=0.03)
    assert last["rows"] == found["base"]["steps"] * found["base"]["step_rows"]
    sizes = {name: found["base"]["parts"][f"stages.base.data.parts.{name}.data"]["rows"] for name in epochs}
    assert sum(epochs[name] * sizes[name] for name in epochs) == pytest.approx(last["rows"])


def test_bounds_that_a_budget_overruns_are_an_error(recipe, capsys):
    bounds = [f"+stages.base.data.parts.{name}.max_epochs=1" for name in ("general", "domain")]
    assert main(["data", "stats", recipe, "--stage", "base", *bounds]) == 2
    assert capsys.readouterr().err.startswith("llmstack: stages.base.data.parts: expected")


def test_a_picture(recipe, data_folder, capsys):
    assert stats(capsys, recipe, "--plot", "x.png", "--stage", "base")
    assert (data_folder / "x.png").read_bytes().startswith(b"\x89PNG")


def test_unknown_stage(recipe, capsys):
    assert main(["data", "stats", recipe, "--stage", "nobody"]) == 2
    assert "got 'nobody'" in capsys.readouterr().err


def test_a_histogram_by_hand():
    lines = list(histogram(Lengths(0, 0, 0, 0, 0, 0, ((1, 1, 80), (2, 2, 1), (3, 3, 0), (4, 5, 43), (1024, 1535, 40)))))
    assert lines == [
        "              1  " + "█" * 40 + " 80",
        "              2  ▌ 1",
        "              3  0",
        "            4-5  " + "█" * 21 + "▌ 43",
        "    1,024-1,535  " + "█" * 20 + " 40",
    ]
    assert list(histogram(Lengths(0, 0, 0, 0, 0, 0, ()))) == []
