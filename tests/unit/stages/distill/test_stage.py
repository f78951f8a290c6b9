"""A student on packed rows: what it learns, its mask, accumulation and resume."""

from __future__ import annotations

import numpy as np

from llmstack.config.stages import SftConfig
from llmstack.models.weights import export_arrays
from llmstack.stages.sft import SftStage
from tests.helpers import stages as tiny
from tests.tolerances import EQUIVALENCE_ATOL, F32_ATOL, F32_RTOL

SOFT_ALONE = {"hard_weight": 0.0, "divergence": {"kind": "forward_kl", "temperature": 2.0}}


def test_soft_targets_alone_bring_the_student_to_the_teacher(make, teacher):
    stage = make(**SOFT_ALONE, optim=tiny.OPTIM | {"lr": 2e-2})
    stage.build()
    frozen = export_arrays(stage.teacher)
    before = stage.evaluate()
    reports = [stage.step(index) for index in range(1, 31)]
    after = stage.evaluate()
    assert reports[-1].metrics["train/soft_loss"] < 0.2 * reports[0].metrics["train/soft_loss"]
    np.testing.assert_allclose(
        reports[0].metrics["train/loss"], reports[0].metrics["train/soft_loss"], rtol=F32_RTOL, atol=0
    )
    # random teacher: the gap may be on either side, and closes
    assert abs(after["eval/loss_gap"]) < 0.5 * abs(before["eval/loss_gap"])
    assert after["eval/teacher_loss"] == before["eval/teacher_loss"]
    np.testing.assert_allclose(
        after["eval/loss"] - after["eval/teacher_loss"], after["eval/loss_gap"], rtol=0, atol=F32_ATOL
    )
    assert all(np.array_equal(array, frozen[name]) for name, array in export_arrays(stage.teacher).items())
    assert {sample["prompt"] for sample in stage.samples()}


def test_a_student_that_is_the_teacher_has_nothing_to_learn_from_it(make, teacher):
    stage = make("chat", init_from=str(teacher), **SOFT_ALONE)
    stage.build()
    # measured first: Adam makes a whole step of a gradient of rounding errors
    np.testing.assert_allclose(stage.evaluate()["eval/loss_gap"], 0.0, rtol=0, atol=F32_ATOL)
    report = stage.step(1)
    np.testing.assert_allclose(report.metrics["train/soft_loss"], 0.0, rtol=0, atol=F32_ATOL)
    np.testing.assert_allclose(report.metrics["train/grad_norm"], 0.0, rtol=0, atol=EQUIVALENCE_ATOL)


def test_the_hard_loss_is_that_of_fine_tuning_and_the_loss_the_weighted_sum(make, sources):
    stage = make("chat", soft_weight=2.0)
    stage.build()
    metrics = stage.step(1).metrics
    shared = {"seq_len": 48, "eval_batches": 2, "samples": {"prompts": 0, "max_new_tokens": 4, "temperature": 0.0}}
    data = {"kind": "sft", "data": sources["chat"], "eval_data": sources["chat"]}
    alone = SftStage(SftConfig.model_validate(tiny.COMMON | data | shared), tiny.context())
    alone.build()
    expected = alone.step(1).metrics
    assert metrics["train/trained_tokens"] == expected["train/trained_tokens"]
    np.testing.assert_allclose(metrics["train/hard_loss"], expected["train/loss"], rtol=F32_RTOL, atol=0)
    whole = 2.0 * metrics["train/soft_loss"] + 0.5 * metrics["train/hard_loss"]
    np.testing.assert_allclose(metrics["train/loss"], whole, rtol=F32_RTOL, atol=0)


def test_micro_batches_give_what_the_whole_batch_gives_and_a_resume_goes_on_exactly(make):
    options = {"divergence": {"kind": "jensen_shannon", "beta": 0.3, "temperature": 2.0, "top_k": 20}}
    whole, parts = make("chat", batch_rows=4, **options), make("chat", batch_rows=2, accumulate=2, **options)
    for stage in (whole, parts):
        stage.build()
        for index in range(1, 3):
            report = stage.step(index)
    assert all(
        np.allclose(a, b, rtol=0, atol=EQUIVALENCE_ATOL)
        for a, b in zip(export_arrays(whole.model).values(), export_arrays(parts.model).values(), strict=True)
    )
    saved = parts.state()
    straight = [parts.step(index).metrics for index in (3, 4)]
    again = make("chat", batch_rows=2, accumulate=2, **options)
    again.build()
    again.restore(saved)
    assert [again.step(index).metrics for index in (3, 4)] == straight
    assert tiny.same_state(again.state(), parts.state())
    assert not any("teacher" in name for name in saved.params) and report.metrics["train/soft_loss"] > 0


def test_adapters_of_a_student_learn(make, teacher):
    lora = {"rank": 2, "alpha": 4.0, "dropout": 0.0, "target_modules": ["all-linear"]}
    stage = make(init_from=str(teacher), lora=lora)
    stage.build()
    before = export_arrays(stage.model, trained_only=True)
    stage.step(1)
    assert any(not np.array_equal(before[n], a) for n, a in export_arrays(stage.model, trained_only=True).items())
