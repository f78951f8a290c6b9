from __future__ import annotations

import json

import yaml

from llmstack.cli.main import main
from llmstack.cli.show import annotated
from llmstack.config.load import load_recipe


def test_the_output_reads_back_as_the_resolved_recipe(capsys):
    assert main(["show", "quickstart", "seed=3"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == load_recipe("quickstart", ["seed=3"]).resolved


def test_each_value_says_where_it_came_from(capsys):
    main(["show", "quickstart", "stages.policy.kl.beta=0.3"])
    lines = {line.split("#")[0].strip(): line.partition("# ")[2] for line in capsys.readouterr().out.splitlines()}
    assert lines["beta: 0.3"] == "command line"
    assert lines["name: quickstart"].split(":")[0].endswith("recipes/quickstart.yaml")
    assert lines["dual_clip: null"] == "default"
    assert "inherited from optim.eps" in lines.values()


def test_comments_are_aligned_and_nothing_else_is_commented():
    lines = annotated(
        {"a": 1, "long_name": [1, 2], "m": {"b": "x y"}, "e": {}}, {"a": "f:1", "long_name.0": "f:2", "m.b": "f:3"}
    )
    assert lines == ["a: 1               # f:1", "long_name: [1, 2]  # f:2", "m:", "  b: x y           # f:3", "e: {}"]


def test_text_that_looks_like_something_else_is_quoted():
    assert annotated({"a": "yes", "b": "1", "c": "x: y", "d": None, "e": 1e-08}, {}) == [
        "a: 'yes'",
        "b: '1'",
        "c: 'x: y'",
        "d: null",
        "e: 1.0e-08",
    ]


def test_json_holds_values_and_origins(capsys):
    assert main(["show", "quickstart", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    loaded = load_recipe("quickstart")
    assert shown == {"recipe": loaded.resolved, "origins": loaded.origins}


def test_the_schema_needs_no_recipe(capsys):
    assert main(["show", "--schema"]) == 0
    assert "stages" in json.loads(capsys.readouterr().out)["properties"]


def test_without_a_recipe_it_is_refused(capsys):
    assert main(["show"]) == 2
    assert "RECIPE: expected a recipe, got nothing" in capsys.readouterr().err


def test_the_schema_of_a_recipe_knows_its_plugins(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "show_test_plugin.py").write_text(
        "from llmstack.registry import MODELS\nMODELS.register('show_test_family')(object())\n", encoding="utf-8"
    )
    quickstart = load_recipe("quickstart").path.read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(quickstart + "\nplugins: [show_test_plugin]\n", encoding="utf-8")
    assert main(["show", "mine.yaml", "--schema"]) == 0
    assert "show_test_family" in capsys.readouterr().out
