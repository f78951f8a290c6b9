from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from llmstack.config.lora import LoraConfig
from llmstack.errors import UserError
from llmstack.models.adapter_files import adapter_problem, read_adapter_config, target_problem
from tests.helpers.models import tiny_config

VALUES = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "bias": "none"}


def config(**changes):
    return LoraConfig(**{"rank": 4, "alpha": 8.0, "dropout": 0.0, "target_modules": ("q_proj",)} | changes)


def write_adapter(folder, **changes):
    (folder / "adapter_config.json").write_text(json.dumps(VALUES | changes))
    save_file({"x": np.zeros(1, np.float32)}, folder / "adapter_model.safetensors")


@pytest.mark.parametrize("targets", [("q_proj", "down_proj"), ("all-linear",), ("*.layers.1.mlp.*",)])
def test_targets_that_name_something(targets):
    assert target_problem(config(target_modules=targets), tiny_config()) is None


@pytest.mark.parametrize("target", ["query", "*.layers.7.*", "embed_tokens", "input_layernorm"])
def test_targets_that_name_no_projection(target):
    problem = target_problem(config(target_modules=("q_proj", target)), tiny_config())
    assert problem.startswith("expected all-linear, one of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down")
    assert f"got {target!r}, which names no projection" in problem


def test_a_folder_that_fits(tmp_path):
    write_adapter(tmp_path)
    assert adapter_problem(config()) is None
    assert adapter_problem(config(adapter=str(tmp_path), dropout=0.5)) is None
    assert adapter_problem(config(adapter=str(tmp_path), alpha=4.0, rslora=True)) is None  # the same factor of 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rank": 8, "alpha": 16.0}, "the stage's rank 8, got"),
        ({"alpha": 16.0}, "the stage's alpha 16.0, got"),
        ({"rslora": True}, "the stage's rslora True, got"),
        ({"dora": True}, "Write dora: false."),
    ],
)
def test_a_folder_of_other_options(tmp_path, changes, words):
    write_adapter(tmp_path)
    assert words in adapter_problem(config(adapter=str(tmp_path)).model_copy(update=changes))


def test_a_folder_that_is_no_adapter(tmp_path):
    options = config(adapter=str(tmp_path))
    assert "expected a PEFT adapter with adapter_config.json, got a folder without it" in adapter_problem(options)
    write_adapter(tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    assert "adapter_model.safetensors: expected a safetensors file" in adapter_problem(options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type: expected 'LORA', the only value implemented, got 'IA3'"),
        ({"bias": "all"}, "bias: expected 'none'"),
        ({"rank_pattern": {"q_proj": 4}}, "rank_pattern: expected None"),
        ({"r": None}, "expected r and target_modules"),
    ],
)
def test_what_an_adapter_cannot_be_is_refused(changes, message, tmp_path):
    values = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "bias": "none"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(values | changes))
    with pytest.raises(UserError, match=message):
        read_adapter_config(tmp_path)
