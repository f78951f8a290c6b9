from __future__ import annotations

import ast

import numpy as np
import pytest
import yaml

from llmstack.config.model import ModelConfig
from llmstack.config.optim import OptimConfig
from llmstack.integrations.mindformers.run_files import START, TrainerRun, trainer_config, write_run
from llmstack.models.checkpoint_io import build_causal, save_model
from tests.helpers.models import rows, tiny_config
from tests.helpers.stages import OPTIM

SIZES = tiny_config(num_hidden_layers=1)


def handed_over(**changes):
    tokens, positions, segments = rows([[4, 3], [6]], 8)
    columns = {"tokens": tokens, "positions": positions, "segments": segments, "labels": np.roll(tokens, -1, axis=1)}
    values = {
        "seed": 5,
        "device": "cpu",
        "sizes": SIZES,
        "optim": OptimConfig.model_validate(OPTIM),
        "columns": columns | {"loss_mask": (segments > 0).astype(np.float32), "unused": tokens},
        "steps": np.array([[0, 1], [1, 1], [1, 0]], np.int32),
        "shares": np.array([0.5, 1.0, 0.25]),
    }
    return TrainerRun(**(values | changes))


def test_the_folder_holds_all_that_the_run_needs(tmp_path):
    save_model(build_causal(SIZES, seed=1), tmp_path / START)
    write_run(handed_over(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        START,
        "model.safetensors",
        "rows.npz",
        "run.yaml",
        "train.py",
    }
    assert yaml.safe_load((tmp_path / "run.yaml").read_text()) == trainer_config(handed_over())
    assert ast.parse((tmp_path / "train.py").read_text())
    with np.load(tmp_path / "rows.npz") as stored:
        assert set(stored) == {"tokens", "positions", "segments", "labels", "loss_mask", "steps", "shares"}


def test_no_path_of_this_machine_is_in_it(tmp_path):
    save_model(build_causal(SIZES, seed=1), tmp_path / START)
    write_run(handed_over(), tmp_path)
    assert str(tmp_path) not in (tmp_path / "run.yaml").read_text() + (tmp_path / "train.py").read_text()


def test_the_options_are_those_of_the_stage():
    config = trainer_config(handed_over())
    assert config["optimizer"] == {"type": "AdamW", "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
    assert config["lr_schedule"]["learning_rate"] == OPTIM["lr"]
    assert config["runner_wrapper"]["max_grad_norm"] == OPTIM["max_grad_norm"]
    assert config["seed"] == 5 and config["runner_config"]["batch_size"] == 2
    assert ModelConfig.model_validate(config["model"]["model_config"]["sizes"]) == SIZES


@pytest.mark.parametrize(
    ("device", "target", "wrapper"),
    [("cpu", "CPU", "LlmstackCpuTrainOneStepCell"), ("ascend", "Ascend", "MFTrainOneStepCell")],
)
def test_ascend_takes_the_stock_step(device, target, wrapper):
    config = trainer_config(handed_over(device=device))
    assert config["context"]["device_target"] == target
    assert config["runner_wrapper"]["type"] == wrapper
