from __future__ import annotations

import subprocess
import sys

import pytest

from llmstack.errors import UserError
from llmstack.registry import Registry, did_you_mean, unknown_name


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


def test_names_and_options_need_no_mindspore():
    code = (
        "import sys; from llmstack import registry as r; "
        "[t.config(n) for t in (r.STAGES, r.REWARDS, r.SOURCES) for n in t.names()]; print('mindspore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
