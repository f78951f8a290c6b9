from __future__ import annotations

import pytest

from llmstack.config.load import load_recipe
from llmstack.errors import ConfigError
from llmstack.parallel.support import check_trainable
from llmstack.stages.chain import run_recipe
from tests.helpers.plans import layout, one_cpu


def test_one_device_in_float32_is_trained():
    check_trainable(one_cpu())


def test_every_option_that_training_would_ignore_is_named():
    options = {"data": 2, "tensor": 2, "pipeline": 2, "context": 2, "micro_batches": 2, "recompute": "full"}
    with pytest.raises(ConfigError) as caught:
        check_trainable(layout(**options, optimizer_sharding="level1", master_dtype="bfloat16"))
    assert {problem.path for problem in caught.value.problems} == {
        f"parallel.{key}"
        for key in ("data", "tensor", "pipeline", "context", "optimizer_sharding", "recompute", "compute_dtype",
                    "master_dtype")
    }  # fmt: skip


def test_a_recipe_is_refused_before_its_folder_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"parallel.data: expected 1, as training runs in one process, got 2"):
        run_recipe(load_recipe("quickstart", ["parallel.mode=mesh", "parallel.data=2"]))
    assert list(tmp_path.iterdir()) == []
