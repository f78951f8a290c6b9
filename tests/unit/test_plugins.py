from __future__ import annotations

import sys

import pytest

from llmstack.errors import UserError
from llmstack.plugins import load_function, load_plugins


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A recipe's folder; the search path is put back afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_modules_are_imported_in_order_from_the_recipes_folder(folder):
    (folder / "plugin_a.py").write_text("order = ['a']\n", encoding="utf-8")
    (folder / "plugin_b.py").write_text("from plugin_a import order\norder.append('b')\n", encoding="utf-8")
    load_plugins(["plugin_a", "plugin_b"], folder=folder)
    assert sys.modules["plugin_a"].order == ["a", "b"]


def test_a_loaded_module_is_left_as_it_is(folder):
    (folder / "plugin_once.py").write_text("times = []\ntimes.append(1)\n", encoding="utf-8")
    load_plugins(["plugin_once"], folder=folder)
    load_plugins(["plugin_once"], folder=folder)
    assert sys.modules["plugin_once"].times == [1]


def test_the_recipes_folder_comes_last_afterwards(folder):
    load_plugins([], folder=folder)
    load_plugins([], folder=folder)
    assert sys.path.count(str(folder)) == 1
    assert sys.path[-1] == str(folder)


def test_installed_modules_need_no_folder():
    load_plugins(["json"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_thing\n", "no module named 'no_such_thing'"),
        ("1 / 0\n", r"'broken_0': it raised ZeroDivisionError \(division by zero\) at .*broken_0.py:1 while"),
        ("x = (\n", r"it raised SyntaxError .* at .*broken_0.py:1 while"),
    ],
)
def test_a_module_that_fails_is_named_with_the_reason(folder, monkeypatch, text, words):
    monkeypatch.delitem(sys.modules, "broken_0", raising=False)
    (folder / "broken_0.py").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=words):
        load_plugins(["broken_0"], folder=folder)
    assert sys.path[-1] == str(folder)


def test_a_missing_module_says_where_it_was_looked_for(folder):
    with pytest.raises(
        UserError, match=r"got 'never_written': no module named 'never_written' was found beside the recipe"
    ):
        load_plugins(["never_written"], folder=folder)
    with pytest.raises(UserError, match="was found among the installed packages"):
        load_plugins(["never_written"])


def test_a_complaint_of_the_registry_passes_as_it_is(folder):
    (folder / "plugin_twice.py").write_text(
        "from llmstack.registry import OPTIMIZERS\nOPTIMIZERS.register('adamw')(object)\n", encoding="utf-8"
    )
    with pytest.raises(UserError, match="^adamw: expected a new optimizer, got a name that is already registered"):
        load_plugins(["plugin_twice"], folder=folder)


def test_a_function_is_found_by_its_address(folder):
    (folder / "plugin_f.py").write_text("def rows():\n    return [1]\n\nLIMIT = 3\n", encoding="utf-8")
    with pytest.raises(UserError, match="plugin_f:rows: .*no module named 'plugin_f' .* must be under `plugins`"):
        load_function("plugin_f:rows")
    load_plugins(["plugin_f"], folder=folder)
    assert load_function("plugin_f:rows")() == [1]
    assert load_function("json:dumps")([1]) == "[1]"
    for address, message in (
        ("plugin_f.rows", "expected package.module:function, got 'plugin_f.rows'"),
        (":rows", "expected package.module:function"),
        ("plugin_f:row", "expected a function 'row' in plugin_f, got nothing of that name. Did you mean `rows`"),
        ("plugin_f:LIMIT", "expected a function 'LIMIT' in plugin_f, got a int. It has rows"),
    ):
        with pytest.raises(UserError, match=message):
            load_function(address)


def test_a_function_of_a_broken_module_names_the_place(folder):
    (folder / "plugin_g.py").write_text("1 / 0\n", encoding="utf-8")
    sys.path.insert(0, str(folder))
    with pytest.raises(UserError, match=r"plugin_g:rows: .* raised ZeroDivisionError .*plugin_g\.py:1"):
        load_function("plugin_g:rows")
