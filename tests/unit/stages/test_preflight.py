from __future__ import annotations

import json
import shutil

import pytest

from llmstack.cli.main import main
from llmstack.config.load import load_recipe
from llmstack.errors import ConfigError
from llmstack.stages.preflight import check_folders
from tests.helpers.stages import causal_folder, tokenizer, write_jsonl

RECIPE = """\
defaults:
  - /optim: adamw
  - /parallel: single
  - /stage@stages.sft: sft
  - _self_
name: mine
seed: 1
model: {from: model}
stages:
  sft:
    data: {source: jsonl, record: prompt_response, path: rows.jsonl}
    eval_data: {source: jsonl, record: prompt_response, path: rows.jsonl}
    budget: 2 steps
    seq_len: 32
    batch_rows: 1
"""
LORA = "+stages.sft.lora={rank: 4, alpha: 8.0, dropout: 0.0, target_modules: [q_proj]}"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = causal_folder(tmp_path_factory.mktemp("models") / "model")
    tokenizer().save(path)
    return path


@pytest.fixture
def here(model, tmp_path, monkeypatch):
    """A folder with a recipe, its data and its model, which a test may damage."""
    shutil.copytree(model, tmp_path / "model")
    write_jsonl(tmp_path / "rows.jsonl", [{"prompt": "red", "response": "blue"}])
    (tmp_path / "r.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def change_config(here, **values):
    path = here / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def write_adapter(here, **values):
    options = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "bias": "none"} | values
    (here / "adapter").mkdir()
    (here / "adapter" / "adapter_config.json").write_text(json.dumps(options))


def problems(*overrides):
    with pytest.raises(ConfigError) as refused:
        check_folders(load_recipe("r.yaml", overrides))
    return [str(problem) for problem in refused.value.problems]


def test_what_fits_passes(here):
    check_folders(load_recipe("r.yaml"))
    check_folders(load_recipe("r.yaml", [LORA, "stages.sft.lora.target_modules=[all-linear]"]))


FOLDERS = {
    "unknown family": (lambda here: change_config(here, model_type="bert"), "model/config.json: model_type: expected"),
    "no JSON": (lambda here: (here / "model" / "config.json").write_text("{"), "model/config.json: expected JSON"),
    "no weights": (lambda here: (here / "model" / "model.safetensors").unlink(), "with model.safetensors or"),
    "no tokenizer": (
        lambda here: (here / "model" / "tokenizer.json").unlink(),
        "expected a folder with tokenizer.json",
    ),
}


@pytest.mark.parametrize("damage", FOLDERS)
def test_a_damaged_folder_is_told_once_and_where_it_was_written(here, damage):
    change, words = FOLDERS[damage]
    change(here)
    (problem,) = problems()
    assert problem.startswith("model.from: ") and words in problem and problem.endswith("(r.yaml:8)")


def test_a_folder_that_a_stage_names(here):
    shutil.copytree(here / "model", here / "other")
    (here / "other" / "model.safetensors").write_bytes(b"1234")
    (problem,) = problems("+stages.sft.init_from=other")
    assert problem.startswith("stages.sft.init_from: other/model.safetensors: expected")
    assert problem.endswith("(command line)")


def test_rows_longer_than_the_context(here):
    assert problems("stages.sft.seq_len=65") == [
        "stages.sft.seq_len: expected rows of at most the context of model (64 tokens), got 65. Shorten seq_len. "
        "(command line)"
    ]


def test_targets_that_name_nothing(here):
    (problem,) = problems(LORA.replace("q_proj", "w"))
    assert problem.startswith("stages.sft.lora.target_modules: expected all-linear, one of q_proj, ")
    assert problem.endswith("got 'w', which names no projection. Correct it. (command line)")


def test_a_folder_that_is_no_adapter(here):
    (problem,) = problems(LORA, "+stages.sft.lora.adapter=model")
    assert problem.startswith("stages.sft.lora.adapter: model: expected a PEFT adapter with adapter_config.json, got")


def test_an_adapter_without_weights(here):
    write_adapter(here)
    (problem,) = problems(LORA, "+stages.sft.lora.adapter=adapter")
    assert problem.startswith("stages.sft.lora.adapter: adapter/adapter_model.safetensors: expected a safetensors file")


@pytest.mark.parametrize("command", ["check", "train"])
def test_both_commands_refuse_before_anything_is_written(here, command, capsys):
    change_config(here, model_type="bert")
    before = sorted(here.rglob("*"))
    assert main([command, "r.yaml"]) == 2
    assert "model.from: model/config.json: model_type" in capsys.readouterr().err
    assert sorted(here.rglob("*")) == before


def test_a_mesh_divides_the_models_of_folders(here):
    mesh = ["parallel.mode=mesh", "parallel.device=ascend"]
    check_folders(load_recipe("r.yaml", [*mesh, "parallel.tensor=1"]))
    found = problems(*mesh, "parallel.tensor=5")
    assert found[0].startswith("parallel.tensor: expected a divisor of model.num_attention_heads (")
    assert found[0].endswith("(command line)")
    change_config(here, num_attention_heads=6, num_key_value_heads=3, head_dim=4, intermediate_size=6, vocab_size=301)
    assert any("expected a divisor of model.vocab_size (301), got 3" in text for text in problems(*mesh,
               "parallel.tensor=3"))  # fmt: skip
