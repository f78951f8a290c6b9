from __future__ import annotations

import math

import pytest

from llmstack.errors import DataError
from llmstack.stages.preference.answers import AnswerScorer
from tests.helpers import stages as tiny
from tests.tolerances import F32_ATOL, ON_POLICY_ATOL
from tests.unit.stages.preference.tiny_preference import build, labelled, pairs

DPO = {"name": "sigmoid"}
KTO = {"name": "kto"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("preference")


@pytest.fixture(scope="module")
def stage(folder):
    return build(folder, DPO)


@pytest.fixture(scope="module")
def begun(stage):
    """What the first evaluation and the first step say."""
    return stage.evaluate(), stage.step(1)


def test_before_the_first_update_dpo_costs_log_2_and_nothing_leads(begun):
    evaluated, report = begun
    assert evaluated["eval/loss"] == pytest.approx(math.log(2), abs=F32_ATOL)
    assert report.metrics["train/loss"] == pytest.approx(math.log(2), abs=F32_ATOL)
    for name in ("eval/margin", "eval/drift", "eval/reward_chosen", "eval/reward_rejected"):
        assert abs(evaluated[name]) < ON_POLICY_ATOL
    assert evaluated["eval/accuracy"] == 0.5
    assert abs(report.metrics["train/margin"]) < F32_ATOL and abs(report.metrics["train/drift"]) < F32_ATOL


def test_a_policy_learns_its_pairs(stage, begun):
    for index in range(2, 22):
        report = stage.step(index)
        assert not report.skipped
    assert set(report.shown) <= set(report.metrics)
    after = stage.evaluate()
    assert after["eval/accuracy"] == 1.0 and after["eval/loss"] < 0.2
    assert after["eval/margin"] > 1.0
    assert after["eval/logp_chosen"] - begun[0]["eval/logp_chosen"] > 0
    assert after["eval/logp_rejected"] - begun[0]["eval/logp_rejected"] < 0
    assert len(stage.samples()) == after["eval/prompts"] == 3
    assert after["eval/red"] == sum("red" in s["response"] for s in stage.samples()) / 3


def test_evaluation_changes_nothing(stage, begun):
    before = stage.state()
    assert stage.evaluate() == stage.evaluate()
    assert tiny.same_state(before, stage.state())


def test_a_restored_stage_goes_on_bitwise(stage, begun):
    saved = stage.state()
    straight = [stage.step(index).metrics for index in (22, 23)]
    ended = stage.state()
    stage.restore(saved)
    assert [stage.step(index).metrics for index in (22, 23)] == straight
    assert tiny.same_state(ended, stage.state())


def test_what_the_reference_says_is_read_again_and_never_asked_twice(folder, stage, begun, monkeypatch):
    asked = []
    score = AnswerScorer.score
    monkeypatch.setattr(AnswerScorer, "score", lambda *args: asked.append(1) or score(*args))
    again = build(folder, {**DPO, "beta": 0.7})
    assert asked == []
    assert (again.reference.logp == stage.reference.logp).all()
    other = build(folder, DPO, reference="other")
    assert len(asked) == 1  # training and evaluation data are the same here
    assert (other.reference.logp != stage.reference.logp).all()
    assert other.config.reference_source == "other"


def test_the_reference_of_adapters_is_the_model_below_them(folder, stage, begun):
    lora = {"rank": 2, "alpha": 4.0, "dropout": 0.1, "target_modules": ["q_proj", "v_proj"]}
    made = build(folder, DPO, lora=lora)
    assert (made.reference.logp == stage.reference.logp).all()
    before = made.evaluate()
    assert abs(before["eval/drift"]) < ON_POLICY_ATOL
    assert before["eval/loss"] == pytest.approx(math.log(2), abs=F32_ATOL)


def test_a_loss_without_reference_asks_none(folder, monkeypatch):
    monkeypatch.setattr(AnswerScorer, "score", None)
    made = build(
        folder, {"name": "simpo"}, samples={"prompts": 0, "max_new_tokens": 4, "temperature": 1.0}, yardsticks={}
    )
    assert not made.reference.logp.any()
    assert "train/drift" not in made.step(1).metrics and made.sample_prompts is None


@pytest.mark.parametrize("record", ["labelled", "preference"])
def test_kto_learns_single_answers(folder, record):
    made = build(folder, KTO, record=record, eval_batches=9)
    first = made.evaluate()
    assert first["eval/loss"] == pytest.approx(0.5, abs=F32_ATOL)
    assert abs(first["eval/baseline"]) < ON_POLICY_ATOL
    for index in range(1, 25):
        report = made.step(index)
    assert {"train/baseline", "train/drift", "train/reward_chosen"} <= set(report.metrics)
    after = made.evaluate()
    assert after["eval/loss"] < 0.35 and after["eval/margin"] > 0.5
    assert len(made.train_rows) == (len(labelled()) if record == "labelled" else 2 * len(pairs()))


@pytest.mark.parametrize(
    ("loss", "record", "rows", "message"),
    [
        (DPO, "labelled", labelled(), "expected PreferenceRecord .* for preference rows, got a labelled record"),
        (KTO, "prompt", [{"prompt": "red"}], "expected LabelledRecord .* or PreferenceRecord .*, got a prompt record"),
        (KTO, "labelled", labelled()[:1] * 3, "expected good answers and bad ones, got 3 that are all good"),
        (DPO, "preference", [{"prompt": "a", "chosen": "b", "rejected": "b"}], "got 1 of 1. Here both are the same"),
        (KTO, "preference", [{"prompt": "a", "chosen": "b", "rejected": "b"}], "got 2 of 2. Here both are the same"),
    ],
)
def test_data_that_does_not_fit_the_loss_is_refused(tmp_path, loss, record, rows, message):
    with pytest.raises(DataError, match=message):
        build(tmp_path, loss, record=record, rows=rows)
