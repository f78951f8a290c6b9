from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from llmstack.config.lora import LoraConfig
from llmstack.config.ppo import PpoConfig
from llmstack.config.stages import SftConfig
from tests.helpers import stages as tiny

LORA = {"rank": 8, "alpha": 16.0, "dropout": 0.05, "target_modules": ["q_proj"]}


def test_scaling_by_hand():
    assert LoraConfig(**LORA).scaling == 2.0
    assert LoraConfig(**LORA, rslora=True).scaling == 16.0 / math.sqrt(8)


@pytest.mark.parametrize("changes", [{"rank": 0}, {"dropout": 1.0}, {"alpha": 0.0}, {"target_modules": []}], ids=str)
def test_impossible_options_are_refused(changes):
    with pytest.raises(ValidationError):
        LoraConfig(**LORA | changes)


def test_adapters_need_a_model_to_stand_on():
    source = {"source": "text", "path": "x.txt"}
    options = {"kind": "sft", "data": source, "eval_data": source, "seq_len": 8, "eval_batches": 1} | tiny.COMMON
    options["samples"] = {"prompts": 0, "max_new_tokens": 1, "temperature": 0.0}
    assert SftConfig.model_validate(options | {"init_from": "base", "lora": LORA}).lora.rank == 8
    with pytest.raises(ValidationError, match="expected `init_from` with it"):
        SftConfig.model_validate(options | {"lora": LORA})


def test_what_ppo_cannot_use_is_refused():
    source = {"source": "text", "path": "x.txt"}
    options = {
        "kind": "ppo",
        "init_from": "lm",
        "data": source,
        "eval_data": source,
        "reference": "lm",
        "reward": {"kind": "model", "from": "rm"},
        "prompt_buckets": [8],
        "response_len": 4,
        "eval_prompts": 1,
        "epochs": 1,
        "minibatches": 1,
        "kl": {"mode": "fixed", "beta": 0.1, "ceiling": 1.0},
        "critic": {"lr": 1e-3},
    } | tiny.COMMON
    assert PpoConfig.model_validate(options | {"lora": LORA | {"dropout": 0.0}}).lora.dropout == 0
    with pytest.raises(ValidationError, match="expected dropout 0 here, got 0.05"):
        PpoConfig.model_validate(options | {"lora": LORA})
    with pytest.raises(ValidationError, match="expected no adapter to start from here, got sft/adapter"):
        PpoConfig.model_validate(options | {"lora": LORA | {"dropout": 0.0, "adapter": "sft/adapter"}})
    with pytest.raises(ValidationError, match=r"expected names of your own, got \['length'\]"):
        PpoConfig.model_validate(options | {"yardsticks": {"length": {"kind": "model", "from": "rm"}}})
