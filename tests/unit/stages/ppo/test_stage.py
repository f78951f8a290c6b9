from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from llmstack.config.ppo import PpoConfig
from llmstack.errors import RunHalted, UserError
from llmstack.models.weights import export_arrays
from llmstack.registry import REWARDS
from llmstack.runtime import compile_count
from llmstack.stages.online.updates import Cut
from llmstack.stages.ppo.stage import PpoStage
from tests.helpers import stages as tiny
from tests.tolerances import F32_ATOL, LOGP_MATCH_ATOL, ON_POLICY_ATOL

NAME = "count_of_e"
if NAME not in REWARDS:

    @REWARDS.register(NAME)
    def count_of_e(batch):
        """The number of letters e; nothing to say about an empty answer, unless it is the first."""
        return [
            float(response.count("e")) if response or not number else None
            for number, response in enumerate(batch.responses)
        ]


def make(folder, reward=None, **changes):
    prompts = tiny.write_jsonl(folder / "prompts.jsonl", [{"prompt": text} for text in tiny.colours(12)])
    source = {"source": "jsonl", "record": "prompt", "path": prompts}
    options = {
        "init_from": "lm",
        "reference": "lm",
        "reward": reward or {"kind": "model", "from": "rm"},
        "yardsticks": {"e": {"kind": NAME}},
        "prompt_buckets": [32],
        "response_len": 6,
        "eval_prompts": 6,
        "epochs": 2,
        "minibatches": 2,
        "kl": {"mode": "adaptive", "beta": 0.1, "target": 1.0, "horizon": 100, "ceiling": 100.0},
        "critic": {"lr": 1e-2, "init_from": "rm"},
    }
    config = PpoConfig.model_validate(
        {"kind": "ppo", "data": source, "eval_data": source} | tiny.COMMON | options | changes
    )
    models = {}
    for name, make_folder in (("lm", tiny.causal_folder), ("rm", tiny.scalar_folder)):
        models[name] = folder / name if (folder / name).exists() else make_folder(folder / name)
    stage = PpoStage(config, tiny.context(models))
    stage.build()
    return stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    return make(tmp_path_factory.mktemp("ppo"), epochs=1, minibatches=1)


@pytest.fixture(scope="module")
def first(stage):
    """The stage before its first update and what the first iteration reports."""
    before = stage.state()
    frozen = export_arrays(stage.reference)
    return before, frozen, stage.step(1).metrics


def test_before_the_first_update_ratio_is_1_and_kl_is_0(first):
    _, _, metrics = first
    assert abs(metrics["train/kl_old_new"]) < ON_POLICY_ATOL
    assert metrics["train/clip_fraction"] == 0.0 and metrics["train/ratio_hist/0.95_1.05"] == 1.0
    assert abs(metrics["train/kl_policy_ref"]) < ON_POLICY_ATOL


def test_the_sampler_and_the_training_graph_agree(first):
    assert first[2]["train/sampler_mismatch"] < LOGP_MATCH_ATOL


def test_policy_and_critic_move_and_nothing_else_does(stage, first):
    before, frozen, _ = first
    after = stage.state().params
    assert [name for name in after if np.array_equal(after[name], before.params[name])] == []
    now = export_arrays(stage.reference)
    assert all(np.array_equal(now[name], frozen[name]) for name in frozen)


def test_a_restored_stage_goes_on_bitwise(stage, first):
    saved = stage.state()
    straight = [stage.step(index).metrics for index in (2, 3)]
    ended = stage.state()
    stage.restore(saved)
    assert [stage.step(index).metrics for index in (2, 3)] == straight
    assert tiny.same_state(ended, stage.state())
    assert ended.trainer["kl"]["beta"] != 0.1


def test_evaluation_changes_nothing_and_compiles_nothing_new(stage, first):
    stage.evaluate()
    before, graphs = stage.state(), compile_count.snapshot().graphs
    values = stage.evaluate()
    assert values == stage.evaluate()
    assert tiny.same_state(before, stage.state())
    for index in range(4, 8):
        report = stage.step(index)
        assert len(report.shown) == 2 and set(report.shown) <= set(report.metrics)
    assert compile_count.snapshot().graphs == graphs
    assert values["eval/prompts"] == 6 and len(stage.samples()) == 6
    assert {"eval/score", "eval/kl_policy_ref", "eval/e", "eval/finished_ratio"} <= set(values)


def test_too_far_from_the_reference_halts_with_advice(stage, first, monkeypatch):
    monkeypatch.setattr(
        stage, "config", stage.config.model_copy(update={"kl": stage.config.kl.model_copy(update={"ceiling": 1e-9})})
    )
    with pytest.raises(RunHalted, match=r"stages\.stage\.kl\.ceiling: .* nats .* Raise kl\.beta"):
        for index in range(8, 12):
            stage.step(index)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Policy and value head on one trunk."""
    return make(
        tmp_path_factory.mktemp("shared"),
        reward={"kind": NAME},
        truncated="penalty",
        missing_eos_score=-1.0,
        critic={"trunk": "shared"},
        epochs=1,
        minibatches=1,
    )


def test_a_shared_trunk_serves_both_losses_in_one_update(shared):
    before = shared.state()
    assert {name for name in before.params if "policy." not in name} == set()
    metrics = shared.step(1).metrics
    assert abs(metrics["train/kl_old_new"]) < ON_POLICY_ATOL and metrics["train/clip_fraction"] == 0.0
    # the head starts at 0: values are 0 and explain nothing
    assert metrics["train/value_mean"] == 0.0 and metrics["train/explained_variance"] == pytest.approx(
        0.0, abs=F32_ATOL
    )
    assert metrics["train/value_loss"] > 0
    after = shared.state().params
    assert [name for name in after if np.array_equal(after[name], before.params[name])] == []
    assert shared.step(2).metrics["train/value_mean"] != 0.0


def test_a_restored_stage_with_a_shared_trunk_goes_on_bitwise(shared):
    saved = shared.state()
    straight = [shared.step(index).metrics for index in (3, 4)]
    ended = shared.state()
    shared.restore(saved)
    assert [shared.step(index).metrics for index in (3, 4)] == straight
    assert tiny.same_state(ended, shared.state())


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Everything that has a state of its own: running statistics of scores, adaptive beta, text beside the answers."""
    folder = tmp_path_factory.mktemp("mixed")
    text = tiny.write_jsonl(folder / "text.jsonl", [{"text": line} for line in tiny.colours(20)])
    source = {"source": "jsonl", "record": "text", "path": text}
    return make(
        folder,
        reward={"kind": NAME},
        scores={"normalise": "running", "clip": 3.0},
        pretraining={"data": source, "coef": 0.5, "seq_len": 8, "batch_rows": 4},
        truncated="mask",
        importance_cap=2.0,
        whiten_rewards=True,
        critic={"trunk": "shared"},
        accumulate=2,
        epochs=1,
    )


def test_text_beside_the_answers_is_learnt(mixed):
    report = mixed.step(1)
    assert len(report.rows["pretraining"]) == 2 * 4
    assert set(report.seconds) == {"rollout", "score", "update"} and min(report.seconds.values()) > 0
    losses = [mixed.step(index).metrics["train/text_loss"] for index in range(2, 6)]
    assert losses[-1] < losses[0] < report.metrics["train/text_loss"]
    assert report.metrics["train/score_scale"] > 0


def test_a_restored_stage_with_running_statistics_and_text_goes_on_bitwise(mixed):
    saved = mixed.state()
    straight = [mixed.step(index).metrics for index in (6, 7)]
    ended = mixed.state()
    mixed.restore(saved)
    assert [mixed.step(index).metrics for index in (6, 7)] == straight
    assert tiny.same_state(ended, mixed.state())
    assert ended.trainer["scores"]["count"] > saved.trainer["scores"]["count"]


def test_a_step_that_is_undone_reads_its_text_again(mixed):
    before = mixed.state()
    mixed.text.add_to(Cut(1.0, 1.0, [{}, {}]))
    mixed.answer("rollout", 8)
    mixed.undo_step()
    assert tiny.same_state(before, mixed.state())


def test_scores_of_steps_are_not_clipped(mixed):
    rollout = mixed.answer("rollout", 9)
    readings = mixed.read(rollout)
    steps = dataclasses.replace(readings.scores, token_score_BR=np.zeros_like(rollout.mask_BR))
    with pytest.raises(UserError, match=r"stages\.stage\.scores\.clip: expected null because the reward scores steps"):
        mixed.experience(rollout, dataclasses.replace(readings, scores=steps))


@pytest.fixture(scope="module")
def learner(tmp_path_factory):
    """A policy that pays for every answer it does not end."""
    return make(
        tmp_path_factory.mktemp("learner"),
        reward={"kind": NAME},
        batch_rows=24,
        response_len=12,
        optim=tiny.OPTIM | {"lr": 1e-2, "weight_decay": 0.0},
        kl={"mode": "fixed", "beta": 0.001, "ceiling": 1e3},
        truncated="penalty",
        missing_eos_score=-5.0,
        critic={"lr": 1e-2, "warmup_iterations": 1},
        accumulate=2,
    )


def test_a_policy_learns_to_end_its_answers(learner, monkeypatch):
    """A random model hardly ever draws an end token; judged on all training answers, whatever the sampling noise."""
    start = learner.state()
    for seed in range(3):
        learner.restore(start)
        monkeypatch.setattr(learner, "context", dataclasses.replace(learner.context, seed=seed))
        steps = [learner.step(index).metrics for index in range(1, 31)]
        assert "train/policy_loss" in steps[-1] and steps[-1]["train/updates"] == 4
        ended = [1.0 - step["train/truncated_ratio"] for step in steps]
        assert np.mean(ended[:3]) < 0.3
        assert np.mean(ended[-5:]) > 0.8
