"""Adapters in the stages: a resumed run goes on bitwise with its dropout, and PPO keeps one set of frozen weights."""

from __future__ import annotations

import json

import numpy as np
import pytest

from llmstack.config.ppo import PpoConfig
from llmstack.config.stages import RewardConfig, SftConfig
from llmstack.models.checkpoint_io import build_causal, load_weights
from llmstack.models.hf_config import read_config
from llmstack.models.weights import export_arrays
from llmstack.stages.ppo.stage import PpoStage
from llmstack.stages.reward import RewardStage
from llmstack.stages.sft import SftStage
from tests.helpers import stages as tiny
from tests.helpers.cells import run
from tests.helpers.models import rows
from tests.tolerances import F32_ATOL, ON_POLICY_ATOL

LORA = {"rank": 4, "alpha": 8.0, "dropout": 0.2, "target_modules": ["q_proj", "v_proj", "down_proj"]}


def sft(folder, base, **changes):
    data = [{"prompt": word, "response": word} for word in tiny.WORDS]
    source = {"source": "jsonl", "record": "prompt_response", "path": tiny.write_jsonl(folder / "rows.jsonl", data)}
    options = {
        "init_from": "base",
        "seq_len": 48,
        "eval_batches": 2,
        "samples": {"prompts": 0, "max_new_tokens": 4, "temperature": 0.0},
        "accumulate": 2,
        "lora": LORA,
    }
    config = SftConfig.model_validate(
        {"kind": "sft", "data": source, "eval_data": source} | tiny.COMMON | options | changes
    )
    stage = SftStage(config, tiny.context({"base": base}))
    stage.build()
    return stage


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.causal_folder(tmp_path_factory.mktemp("lora") / "base")


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory):
    """``(stage, losses, evaluations)`` of six straight steps."""
    stage = sft(tmp_path_factory.mktemp("straight"), base)
    first = stage.evaluate()
    losses = [stage.step(index).metrics["train/loss"] for index in range(1, 7)]
    return stage, losses, (first, stage.evaluate())


def test_only_what_is_trained_is_in_a_checkpoint_and_evaluation_drops_nothing(trained):
    stage, losses, (first, last) = trained
    assert all(".updates." in name for name in stage.state().params)
    assert last["eval/loss"] < first["eval/loss"]
    assert stage.evaluate() == last


def test_a_resumed_run_goes_on_bitwise(trained, base, tmp_path):
    stage, losses, _ = trained
    again = sft(tmp_path, base)
    assert [again.step(index).metrics["train/loss"] for index in (1, 2, 3)] == losses[:3]
    saved = again.state()
    for index in (4, 5):
        again.step(index)
    again.restore(saved)
    assert [again.step(index).metrics["train/loss"] for index in (4, 5, 6)] == losses[3:]
    assert tiny.same_state(again.state(), stage.state())


def test_what_it_hands_on_is_a_whole_model_with_the_adapter_beside_it(trained, tmp_path):
    stage, _, _ = trained
    stage.save_final(tmp_path)
    plain = build_causal(read_config(tmp_path), seed=None)
    load_weights(plain, tmp_path)
    tokens = rows(((5, 4),), 9, vocab_size=200)
    np.testing.assert_allclose(run(plain, *tokens), run(stage.model, *tokens), rtol=0, atol=F32_ATOL)
    saved = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert saved["base_model_name_or_path"] == str(stage.context.inputs["base"])


def test_a_reward_model_trains_its_head_with_the_adapters(base, tmp_path):
    data = [{"prompt": "red", "chosen": word, "rejected": "x"} for word in tiny.WORDS]
    source = {"source": "jsonl", "record": "preference", "path": tiny.write_jsonl(tmp_path / "pairs.jsonl", data)}
    options = {"init_from": "base", "seq_len": 48, "eval_batches": 2, "lora": LORA}
    options["optim"] = tiny.OPTIM | {"weight_decay": 0.0}
    config = RewardConfig.model_validate(
        {"kind": "reward", "data": source, "eval_data": source} | tiny.COMMON | options
    )
    stage = RewardStage(config, tiny.context({"base": base}))
    stage.build()
    before = export_arrays(stage.model)
    stage.step(1)
    moved = {name for name, array in export_arrays(stage.model).items() if not np.array_equal(array, before[name])}
    # B starts at 0, so that A has no gradient in the first step
    assert moved == {"score.weight", *(name for name in before if name.endswith(".b"))}


def test_ppo_holds_one_set_of_frozen_weights_for_policy_and_reference(base, tmp_path):
    reward = tiny.scalar_folder(tmp_path / "rm")
    prompts = tiny.write_jsonl(tmp_path / "prompts.jsonl", [{"prompt": text} for text in tiny.colours(12)])
    source = {"source": "jsonl", "record": "prompt", "path": prompts}
    options = {
        "init_from": "base",
        "reference": "base",
        "reward": {"kind": "model", "from": "rm"},
        "prompt_buckets": [32],
        "response_len": 6,
        "eval_prompts": 4,
        "epochs": 1,
        "minibatches": 1,
        "kl": {"mode": "fixed", "beta": 0.1, "ceiling": 100.0},
        "critic": {"lr": 1e-2, "init_from": "rm"},
        "lora": LORA | {"dropout": 0.0},
    }
    config = PpoConfig.model_validate({"kind": "ppo", "data": source, "eval_data": source} | tiny.COMMON | options)
    stage = PpoStage(config, tiny.context({"base": base, "rm": reward}))
    stage.build()
    assert stage.reference.trunk.blocks[0].attention.qkv.weight is stage.policy.trunk.blocks[0].attention.qkv.weight
    frozen = export_arrays(stage.reference)
    first = stage.step(1).metrics
    assert abs(first["train/kl_policy_ref"]) < ON_POLICY_ATOL and abs(first["train/kl_old_new"]) < ON_POLICY_ATOL
    second = stage.step(2).metrics
    assert abs(second["train/kl_policy_ref"]) > ON_POLICY_ATOL
    assert all(np.array_equal(array, frozen[name]) for name, array in export_arrays(stage.reference).items())
    assert any(name == "critic.score.weight" for name in stage.state().params)
