"""The Cells a student descends, against the losses of the two models' logits."""

from __future__ import annotations

import numpy as np
import pytest

from llmstack.losses.cross_entropy import MaskedCrossEntropy
from llmstack.losses.distill import DistillationLoss, ReverseKl
from llmstack.models.checkpoint_io import build_causal
from llmstack.stages.distill.objective import AnswerObjective, DistillObjective
from llmstack.stages.scoring import TargetLogits
from tests.helpers import stages as tiny
from tests.helpers.cells import run
from tests.reference import cross_entropy, distill
from tests.tolerances import F32_ATOL, F32_RTOL


@pytest.fixture(scope="module")
def models():
    student, teacher = (build_causal(tiny.model_config(), seed=seed) for seed in (0, 1))
    for name, parameter in teacher.parameters_and_names():
        parameter.name = f"teacher.{name}"
    return student, teacher


def inputs():
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 270, (2, 6)).astype(np.int32)
    rows = (tokens, np.tile(np.arange(6, dtype=np.int32), (2, 1)), np.ones((2, 6), np.int32))
    targets = np.array([1, 2, 8, 0], np.int32)
    labels, mask = rng.integers(0, 270, 4).astype(np.int32), np.array([1, 1, 1, 0], np.float32)
    return rows, targets, labels, mask


def test_parts_and_sum_match_the_oracles(models):
    rows, targets, labels, mask = inputs()
    student, teacher = (run(TargetLogits(model), *rows, targets) for model in models)
    soft = DistillationLoss(ReverseKl(), temperature=2.0)
    cell = DistillObjective(*models, soft=soft, hard=MaskedCrossEntropy(), soft_weight=3.0, hard_weight=0.5)
    loss, hard, soft_part = run(cell, np.float32(1 / 3), *rows, targets, labels, mask)
    expected_soft = distill.distillation(teacher, student, mask, distill.reverse_kl, 2.0)[0] / 3
    expected_hard = cross_entropy.cross_entropy(student, labels, mask, 0.0)[0] / 3
    np.testing.assert_allclose(soft_part, expected_soft, rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose(hard, expected_hard, rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose(loss, 3 * expected_soft + 0.5 * expected_hard, rtol=F32_RTOL, atol=F32_ATOL)


def test_answers_have_the_soft_part_alone(models):
    rows, targets, _, mask = inputs()
    student, teacher = (run(TargetLogits(model), *rows, targets) for model in models)
    cell = AnswerObjective(*models, soft=DistillationLoss(ReverseKl(), temperature=1.0))
    (loss,) = run(cell, np.float32(1 / 3), *rows, targets, mask)
    expected = distill.distillation(teacher, student, mask, distill.reverse_kl)[0] / 3
    np.testing.assert_allclose(loss, expected, rtol=F32_RTOL, atol=F32_ATOL)
