from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from llmstack import registry
from llmstack.errors import UserError
from llmstack.registry import Registry, did_you_mean, unknown_name

TABLES = {
    "STAGES": {"pretrain", "sft", "reward", "ppo"},
    "MODELS": {"llama"},
    "REWARDS": {"model", "pep257_style"},
    "SOURCES": {"text", "jsonl", "stdlib_docs", "stdlib_summaries", "stdlib_style_pairs"},
    "OPTIMIZERS": {"adamw"},
    "SCHEDULES": {"constant", "linear", "cosine", "wsd"},
}
BUILT_INS = [(table, name) for table, names in TABLES.items() for name in sorted(names)]


@pytest.fixture
def table() -> Registry[object]:
    return Registry("animal")


def test_a_decorated_part_is_found_and_given_back(table):
    @table.register("dog", config=int)
    class Dog:
        """Barks.

        Loudly.
        """

    assert table.get("dog") is Dog
    assert table.config("dog") is int
    assert table.summary("dog") == "Barks."
    assert "dog" in table and "cat" not in table


def test_a_summary_given_wins_and_may_be_missing(table):
    table.register("dog", summary="an animal")(len)
    table.register("cat")(3)
    assert table.summary("dog") == "an animal"
    assert table.config("cat") is None
    assert table.names() == ("cat", "dog")


def test_an_address_is_imported_when_it_is_asked_for(table, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "registry_test_parts.py").write_text("class Fish: pass\n", encoding="utf-8")
    table.add_lazy("fish", "registry_test_parts:Fish", config="registry_test_parts:Fish", summary="swims")
    assert table.summary("fish") == "swims"
    assert "registry_test_parts" not in sys.modules
    fish = table.get("fish")
    assert fish.__name__ == "Fish"
    assert table.get("fish") is fish
    assert table.config("fish") is fish


def test_only_what_a_plugin_entered_is_its_part(table):
    table.add_lazy("fish", "no_such_module:Fish", summary="swims")
    table.register("dog")(1)
    assert table.plugin_part("dog") == 1
    assert table.plugin_part("fish") is None


@pytest.mark.parametrize("again", [lambda t: t.register("dog")(2), lambda t: t.add_lazy("dog", "a:b", summary="")])
def test_a_name_is_given_once(table, again):
    table.register("dog")(1)
    with pytest.raises(UserError, match="dog: expected a new animal, got a name that is already registered"):
        again(table)
    assert table.get("dog") == 1


@pytest.mark.parametrize("ask", [Registry.get, Registry.config, Registry.summary])
def test_an_unknown_name_lists_the_known_and_the_nearest(table, ask):
    table.register("dog")(1)
    table.register("cat")(1)
    with pytest.raises(UserError, match=r"expected an animal \(cat, dog\), got 'dgo'. Did you mean `dog`\?"):
        ask(table, "dgo")


def test_an_empty_table_says_so():
    assert "none is registered" in unknown_name("stage kind", "x", [])


def test_nearness_ignores_case_and_gives_up_on_strangers():
    assert did_you_mean("LLAMA", ["llama", "qwen"]) == "Did you mean `llama`?"
    assert did_you_mean("zzz", ["llama"]) == ""
    assert did_you_mean(5, []) == ""


def test_the_built_ins_are_these():
    for table, names in TABLES.items():
        assert names <= set(getattr(registry, table).names())


@pytest.mark.parametrize(("table", "name"), BUILT_INS)
def test_a_built_in_has_an_address_that_exists_and_a_summary(table, name):
    entries = vars(getattr(registry, table))["_entries"]
    target = entries[name].target
    if isinstance(target, str):
        module, _, attribute = target.partition(":")
        spec = importlib.util.find_spec(module)
        assert spec is not None and spec.origin is not None, f"{module} does not exist"
        assert attribute in defined_names(Path(spec.origin)), f"{module} does not define {attribute}"
    assert getattr(registry, table).summary(name)


@pytest.mark.parametrize(("table", "name"), [(t, n) for t, n in BUILT_INS if t in ("STAGES", "REWARDS", "SOURCES")])
def test_the_options_of_a_built_in_are_a_model(table, name):
    assert issubclass(getattr(registry, table).config(name), BaseModel)


def test_names_and_options_need_no_mindspore():
    code = (
        "import sys; from llmstack import registry as r; "
        "[t.config(n) for t in (r.STAGES, r.REWARDS, r.SOURCES) for n in t.names()]; print('mindspore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def defined_names(file: Path) -> set[str]:
    """The names a module binds at its top level."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names
