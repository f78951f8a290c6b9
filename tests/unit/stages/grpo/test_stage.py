from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from llmstack.config.grpo import GrpoConfig
from llmstack.errors import RunHalted
from llmstack.models.weights import export_arrays
from llmstack.registry import REWARDS
from llmstack.runtime import compile_count
from llmstack.stages.grpo.stage import GrpoStage
from tests.helpers import stages as tiny
from tests.tolerances import EQUIVALENCE_ATOL, LOGP_MATCH_ATOL, ON_POLICY_ATOL

NAME = "low_bytes"
SCORING = {"constant": None}
if NAME not in REWARDS:

    @REWARDS.register(NAME)
    def low_bytes(batch):
        """The number of lower-case letters; the same for all when a test says so."""
        if SCORING["constant"] is not None:
            return [SCORING["constant"]] * len(batch)
        return [float(sum("a" <= letter <= "z" for letter in response)) for response in batch.responses]


def make(folder, **changes):
    prompts = tiny.write_jsonl(folder / "prompts.jsonl", [{"prompt": text} for text in tiny.colours(12)])
    source = {"source": "jsonl", "record": "prompt", "path": prompts}
    options = {
        "kind": "grpo",
        "data": source,
        "eval_data": source,
        "init_from": "lm",
        "reference": "lm",
        "reward": {"kind": NAME},
        "prompt_buckets": [32],
        "response_len": 6,
        "eval_prompts": 4,
        "batch_rows": 12,
        "samples_per_prompt": 3,
        "epochs": 1,
        "minibatches": 1,
        "advantage": {"kind": "grpo"},
        "aggregation": "seq_mean_token_mean",
        "kl": {"mode": "fixed", "beta": 0.0, "in_loss": 0.1, "ceiling": 100.0},
    }
    config = GrpoConfig.model_validate(tiny.COMMON | options | changes)
    lm = folder / "lm" if (folder / "lm").exists() else tiny.causal_folder(folder / "lm")
    stage = GrpoStage(config, tiny.context({"lm": lm}))
    stage.build()
    return stage


@pytest.fixture(autouse=True)
def _scores_by_letters():
    yield
    SCORING["constant"] = None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("grpo")


@pytest.fixture(scope="module")
def stage(folder):
    return make(folder)


@pytest.fixture(scope="module")
def first(stage):
    """The stage before its first update and what the first iteration reports."""
    before, frozen = stage.state(), export_arrays(stage.reference)
    return before, frozen, stage.step(1)


def with_options(stage, monkeypatch, **changes):
    """The same compiled stage with options that no graph depends on."""
    options = stage.config.model_dump(mode="json", by_alias=True) | changes
    monkeypatch.setattr(stage, "config", GrpoConfig.model_validate(options))


def test_before_the_first_update_ratio_is_1_and_kl_is_0(first):
    metrics = first[2].metrics
    assert metrics["train/ratio_mean"] == pytest.approx(1.0, abs=ON_POLICY_ATOL)
    assert abs(metrics["train/kl_old_new"]) < ON_POLICY_ATOL and metrics["train/clip_fraction"] == 0.0
    assert abs(metrics["train/kl_policy_ref"]) < ON_POLICY_ATOL
    assert metrics["train/sampler_mismatch"] < LOGP_MATCH_ATOL
    assert metrics["train/importance_ess_ratio"] == pytest.approx(1.0, abs=LOGP_MATCH_ATOL)


def test_the_policy_moves_and_nothing_else_does(stage, first):
    before, frozen, report = first
    after = stage.state().params
    assert [name for name in after if np.array_equal(after[name], before.params[name])] == []
    now = export_arrays(stage.reference)
    assert all(np.array_equal(now[name], frozen[name]) for name in frozen)
    assert set(report.shown) <= set(report.metrics) and all(np.isfinite(value) for value in report.metrics.values())


def test_groups_of_equal_scores_have_no_gradient_but_that_of_the_kl(stage, first):
    """On policy the KL's gradient is 0 too; off it, it is all there is, and brings the policy back."""
    before, _, _ = first
    moved = stage.state()
    SCORING["constant"] = 0.1
    stage.restore(before)
    metrics = stage.step(1).metrics
    assert metrics["train/zero_spread_ratio"] == 1.0
    assert metrics["train/policy_grad_norm"] < EQUIVALENCE_ATOL
    assert metrics["train/advantage_min"] == metrics["train/advantage_max"] == 0.0
    stage.restore(moved)
    metrics = stage.step(2).metrics
    assert metrics["train/policy_grad_norm"] > 0 and metrics["train/policy_loss"] > 0
    stage.restore(moved)


def test_a_restored_stage_goes_on_bitwise(stage, first):
    saved = stage.state()
    straight = [stage.step(index).metrics for index in (2, 3)]
    ended = stage.state()
    stage.restore(saved)
    assert [stage.step(index).metrics for index in (2, 3)] == straight
    assert tiny.same_state(ended, stage.state())


def test_dynamic_sampling_goes_on_bitwise_and_its_prompts_are_part_of_the_position(stage, first, monkeypatch):
    with_options(stage, monkeypatch, dynamic_sampling={"max_refills": 3}, advantage={"kind": "rloo"})
    scores = iter([0.0, None, None] * 2)

    def first_draw_flat(function):
        def score(rollout):
            SCORING["constant"] = next(scores)
            return function(rollout)

        return score

    monkeypatch.setattr(stage.reward, "score", first_draw_flat(stage.reward.score))
    saved = stage.state()
    straight = [stage.step(2), stage.step(3)]
    ended = stage.state()
    assert straight[0].metrics["train/refills"] >= 1 and straight[0].metrics["train/groups_dropped"] >= 4
    assert len(straight[0].rows["data"]) == 4 * (1 + straight[0].metrics["train/refills"])
    scores = iter([0.0, None, None] * 2)
    stage.restore(saved)
    again = [stage.step(2), stage.step(3)]
    assert [(a.metrics, a.rows) for a in again] == [(s.metrics, s.rows) for s in straight]
    assert tiny.same_state(ended, stage.state())


def test_no_group_with_spread_halts_with_advice(stage, first, monkeypatch):
    with_options(stage, monkeypatch, dynamic_sampling={"max_refills": 1})
    SCORING["constant"] = 1.0
    with pytest.raises(RunHalted, match=r"stages\.stage\.dynamic_sampling: .* got none among 8 \(mean score 1\)"):
        stage.step(2)


def test_nothing_left_to_learn_takes_no_step_and_is_finite(stage, first, monkeypatch):
    """A random model hardly ever ends an answer: all are cut off, and out."""
    with_options(stage, monkeypatch, truncated="drop")
    monkeypatch.setattr(stage, "answer", lambda *names: all_cut_off(GrpoStage.answer(stage, *names)))
    before = stage.state()
    metrics = stage.step(4).metrics
    assert metrics["train/updates"] == 0 and metrics["train/masked_ratio"] == 1.0
    assert all(np.isfinite(value) for value in metrics.values())
    after = stage.state()
    assert all(np.array_equal(after.params[name], before.params[name]) for name in before.params)


def all_cut_off(rollout):
    return dataclasses.replace(rollout, finished_B=np.zeros(len(rollout.finished_B), bool))


@pytest.fixture(scope="module")
def accumulating(folder):
    return make(folder, accumulate=2)


@pytest.mark.parametrize(
    "aggregation", ["token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm"]
)
def test_micro_batches_add_up_to_the_minibatch(stage, accumulating, first, monkeypatch, aggregation):
    # Adam makes a step of the rate of any gradient, rounding included
    monkeypatch.setattr("llmstack.stages.learner.learning_rate", lambda *_: 1e-3)
    start = first[0]
    reports = []
    for one in (stage, accumulating):
        one.restore(start)
        with_options(one, monkeypatch, aggregation=aggregation)
        # answers of 1 to 6 tokens, so that means of means would differ
        monkeypatch.setattr(one, "answer", ragged(one))
        reports.append((one.step(1).metrics, one.state().params))
    (whole, weights), (parts, others) = reports
    for name in whole:
        assert parts[name] == pytest.approx(whole[name], abs=EQUIVALENCE_ATOL), name
    for name in weights:
        np.testing.assert_allclose(others[name], weights[name], atol=EQUIVALENCE_ATOL)


def ragged(stage):
    def answer(*names):
        rollout = GrpoStage.answer(stage, *names)
        lengths = np.arange(len(rollout.mask_BR)) % 6 + 1
        mask = (np.arange(6) < lengths[:, None]).astype(np.float32)
        segments = rollout.segments_BT.copy()
        segments[:, rollout.prompt_len :] = mask
        return dataclasses.replace(rollout, mask_BR=mask, segments_BT=segments)

    return answer


def test_nothing_is_compiled_after_the_first_iteration(stage, first):
    stage.evaluate()
    graphs = compile_count.snapshot().graphs
    values = stage.evaluate()
    for index in range(5, 8):
        stage.step(index)
    assert compile_count.snapshot().graphs == graphs
    assert values["eval/prompts"] == 4


@pytest.mark.parametrize(
    ("advantage", "beta", "aggregation"),
    [
        ("grpo", 0.0, "token_mean"),
        ("dr_grpo", 0.0, "seq_mean_token_sum_norm"),
        ("rloo", 0.01, "seq_mean_token_sum"),
        ("reinforce_pp", 0.01, "token_mean"),
    ],
)
def test_each_method_learns(stage, first, monkeypatch, advantage, beta, aggregation):
    """Letters become more frequent, judged on all training answers."""
    stage.restore(first[0])
    with_options(stage, monkeypatch, advantage={"kind": advantage}, aggregation=aggregation)
    monkeypatch.setattr(stage.kl, "beta", beta)
    scores = [stage.step(index).metrics["train/score_mean"] for index in range(1, 26)]
    assert np.mean(scores[-5:]) > np.mean(scores[:5]) + 0.5
