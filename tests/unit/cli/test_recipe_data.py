from __future__ import annotations

import io
import subprocess
import sys

import pytest

from llmstack.cli.recipe_data import RecipeData, write
from llmstack.errors import ConfigError, UserError


def test_options_in_order(recipe):
    data = RecipeData(recipe, [], stage=None)
    assert list(data.stages) == ["base", "sft", "rm", "policy"]
    assert [(option.path, option.part, option.evaluation) for option in data.options("base")] == [
        ("stages.base.data.parts.general.data", "general", False),
        ("stages.base.data.parts.domain.data", "domain", False),
        ("stages.base.eval_data.of.general", "general", True),
        ("stages.base.eval_data.of.domain", "domain", True),
    ]
    assert [(option.path, option.part) for option in data.options("sft")] == [
        ("stages.sft.data", "data"),
        ("stages.sft.eval_data", ""),
    ]


def test_one_stage(recipe):
    assert list(RecipeData(recipe, [], stage="rm").stages) == ["rm"]
    with pytest.raises(UserError, match="--stage: expected one of base, sft, rm, policy, got 'rmm'"):
        RecipeData(recipe, [], stage="rmm")


def test_a_trained_tokenizer_is_kept_where_training_looks_for_it(recipe, data_folder):
    data = RecipeData(recipe, ["run_dir=out"], stage=None)
    assert data.tokenizer_folder.resolve() == data_folder / "out" / "tokenizer"
    before = (data_folder / "out" / "tokenizer" / "tokenizer.json").stat().st_mtime_ns
    again = RecipeData(recipe, ["run_dir=out"], stage=None)
    assert again.tokenizer.fingerprint() == data.tokenizer.fingerprint()
    assert (data_folder / "out" / "tokenizer" / "tokenizer.json").stat().st_mtime_ns == before


def test_a_wrong_recipe(recipe):
    with pytest.raises(ConfigError, match="seq_length"):
        RecipeData(recipe, ["+stages.base.seq_length=3"], stage=None)


@pytest.mark.parametrize(
    "words", [["prepare"], ["stats", "--plot", "x.png"], ["show", "--stage", "base", "--step", "1"]]
)
def test_no_command_loads_mindspore(recipe, words):
    argv = ["data", words[0], recipe, *words[1:]]
    code = (
        f"import sys; from llmstack.cli.main import main; status = main({argv!r}); "
        "assert 'mindspore' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_lacks_characters_gets_others(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    write("10 █ tokens\n")
    sys.stdout.flush()
    assert raw.getvalue() == b"10 ? tokens\n"
