"""docs/lora.md: its recipes are decoded, its program is run, its table is what the presets say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from llmstack.config.load import load_recipe
from llmstack.config.lora import LoraConfig
from llmstack.models.adapters import put_on_adapters, save_adapter
from llmstack.models.checkpoint_io import build_causal, load_weights, save_model
from llmstack.models.hf_config import read_config
from tests.helpers.cells import run
from tests.helpers.models import rows, tiny_config
from tests.tolerances import F32_ATOL
from tests.unit.models.test_adapters import moved

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lora.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, flags=re.DOTALL))
PRESETS = ROOT / "configs" / "lora"
PLACES = {"all": ["all-linear"], "q, v": ["q_proj", "v_proj"], "q, k, v, o": ["q_proj", "k_proj", "v_proj", "o_proj"]}


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """The page's recipe, with what it names beside it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "tests" / "meta" / "model_folder", tmp_path / "models" / "smollm2")
    for name in ("train.jsonl", "held_out.jsonl"):
        (tmp_path / name).write_text("{}\n", encoding="utf-8")
    path = tmp_path / "my_chat.yaml"
    path.write_text(FILES["my_chat.yaml"], encoding="utf-8")
    return path


def test_the_recipe_decodes_and_takes_the_preset(recipe):
    sft = load_recipe(str(recipe)).config.stages["sft"]
    assert sft.init_from == "models/smollm2"
    assert (sft.lora.rank, sft.optim.lr) == (8, 2.0e-4)
    changed = load_recipe(str(recipe), ["lora@stages.sft=reasoning", "stages.sft.lora.rank=4"]).config.stages["sft"]
    assert (changed.lora.rank, changed.lora.alpha, changed.optim.lr) == (4, 64.0, 1.0e-4)


def test_a_preset_from_the_command_line_wins_over_the_stages_own_keys():
    assert load_recipe("quickstart").config.stages["sft"].optim.lr != 2.0e-4
    sft = load_recipe("quickstart", ["+lora@stages.sft=dialogue"]).config.stages["sft"]
    assert (sft.lora.rank, sft.optim.lr) == (8, 2.0e-4)


def test_options_written_out_win_over_a_preset(recipe):
    tree, own = yaml.safe_load(FILES["my_chat.yaml"]), yaml.safe_load(FILES["options.yaml"])
    tree["stages"]["sft"] |= own["stages"]["sft"]
    recipe.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    lora = load_recipe(str(recipe)).config.stages["sft"].lora
    assert lora == LoraConfig(**own["stages"]["sft"]["lora"])


def test_the_table_has_every_preset_as_it_is():
    table = {}
    for line in re.findall(r"^\| `\w+` \| .* \|$", PAGE, flags=re.MULTILINE):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8:
            table[cells[0].strip("`")] = cells[2:7]
    assert sorted(table) == sorted(path.stem for path in PRESETS.glob("*.yaml"))
    for name, (rank, alpha, dropout, where, lr) in table.items():
        preset = yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))
        lora = LoraConfig(**preset["lora"])
        assert (lora.rank, lora.dropout, preset["optim"]["lr"]) == (int(rank), float(dropout), float(lr)), name
        assert (lora.alpha, lora.rslora) == (float(alpha.partition(",")[0]), "rsLoRA" in alpha), name
        assert list(lora.target_modules) == PLACES[where], name


def test_the_table_of_options_has_every_option():
    listed = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", PAGE, flags=re.MULTILINE)
    assert sorted(listed) == sorted(LoraConfig.model_fields)


def test_the_program_merges(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = LoraConfig(rank=3, alpha=6.0, dropout=0.1, target_modules=("q_proj", "down_proj"), dora=True)
    model = build_causal(tiny_config(), seed=1)
    save_model(model, "models/base")
    put_on_adapters(model, options, seed=2)
    save_adapter(moved(model), "models/adapter", options, base="models/base")
    exec(compile(FILES["merge.py"], "merge.py", "exec"), {})  # noqa: S102
    merged = build_causal(read_config("models/merged"), seed=None)
    load_weights(merged, "models/merged")
    tokens = rows(((5, 4),), 9)
    np.testing.assert_allclose(run(merged, *tokens), run(model, *tokens), rtol=0, atol=F32_ATOL)
