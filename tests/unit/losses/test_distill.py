"""The divergences of distillation against their oracles: values, gradients, temperature and the remainder bucket."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from llmstack.losses.distill import DistillationLoss, ForwardKl, JensenShannon, ReverseKl, divergence
from tests.helpers.cells import Differentiated, eager, run
from tests.reference import distill
from tests.reference.differences import numerical_gradient
from tests.tolerances import EXACT, F32_ATOL, F32_RTOL, GRADIENT_ATOL, LIMIT_RTOL

N, V = 7, 11
MEASURES = {
    "forward_kl": (ForwardKl, distill.forward_kl),
    "reverse_kl": (ReverseKl, distill.reverse_kl),
    "jensen_shannon_half": (lambda: JensenShannon(0.5), distill.jensen_shannon),
    "jensen_shannon_tenth": (lambda: JensenShannon(0.1), functools.partial(distill.jensen_shannon, beta=0.1)),
}
OPTIONS = [(1.0, None), (2.5, None), (1.0, 3), (2.5, 4)]


def loss_cell(measure, **options):
    return DistillationLoss(MEASURES[measure][0](), **options)


def some_logits(seed=0, size=2.0):
    rng = np.random.default_rng(seed)
    teacher, student = rng.normal(0.0, size, (2, N, V)).astype(np.float32)
    return teacher, student, (np.arange(N) % 3 > 0).astype(np.float32)


@functools.cache
def measured(measure, temperature, top_k):
    """Loss, count and the gradients in both sides' logits, of one set of logits."""
    cell = Differentiated(loss_cell(measure, temperature=temperature, top_k=top_k), 3, wrt=(0, 1))
    (loss, count), gradients, _ = cell(some_logits(), (1.0, 0.0))
    return loss, count, gradients


# one position: the teacher's p = (1/2, 1/4, 1/4), a uniform student
BY_HAND = [
    ("forward_kl", None, math.log(3) - 1.5 * math.log(2)),
    ("reverse_kl", None, math.log(32 / 27) / 3),
    ("jensen_shannon_half", None, math.log(36 / 35) / 4 + math.log(256 / 245) / 6),
    ("forward_kl", 1, math.log(9 / 8) / 2),
    ("reverse_kl", 1, math.log(2 / 3) / 3 + 2 * math.log(4 / 3) / 3),
]


@pytest.mark.parametrize(("measure", "top_k", "expected"), BY_HAND)
def test_three_tokens_by_hand(measure, top_k, expected):
    teacher, student = np.log([[0.5, 0.25, 0.25]] * 2), np.zeros((2, 3))
    for temperature in (1.0, 3.0):
        with eager():
            # logits T log p have the softened distribution p, so that only the factor T^2 is left of T
            cell = loss_cell(measure, temperature=temperature, top_k=top_k)
            loss, count = run(cell, teacher * temperature, student, [1.0, 0.0])
        np.testing.assert_allclose(loss, temperature**2 * expected, rtol=F32_RTOL, atol=F32_ATOL)
        assert count == 1


@pytest.mark.parametrize(("temperature", "top_k"), OPTIONS)
@pytest.mark.parametrize("measure", MEASURES)
def test_matches_the_oracle(measure, temperature, top_k):
    teacher, student, mask = some_logits()
    loss, count, (of_teacher, of_student) = measured(measure, temperature, top_k)

    def oracle(logits):
        found = distill.distillation(teacher, logits, mask, MEASURES[measure][1], temperature, top_k)
        return found[0]

    np.testing.assert_allclose(loss, oracle(student), rtol=F32_RTOL, atol=F32_ATOL)
    assert count == mask.sum()
    np.testing.assert_allclose(of_student, numerical_gradient(oracle, student), rtol=0, atol=GRADIENT_ATOL)
    np.testing.assert_allclose(of_student[mask == 0], 0.0, rtol=0, atol=EXACT)
    np.testing.assert_allclose(of_teacher, 0.0, rtol=0, atol=EXACT)


@pytest.mark.parametrize("measure", MEASURES)
def test_all_tokens_kept_is_the_whole_vocabulary(measure):
    whole = measured(measure, 2.5, None)
    # one token in the remainder, and none
    for top_k in (V - 1, V):
        kept = measured(measure, 2.5, top_k)
        np.testing.assert_allclose(kept[0], whole[0], rtol=F32_RTOL, atol=F32_ATOL)
        np.testing.assert_allclose(kept[2][1], whole[2][1], rtol=0, atol=GRADIENT_ATOL)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_bucket_hides_what_is_in_it_and_nothing_else(measure):
    losses = [float(measured(measure, 1.0, top_k)[0]) for top_k in (1, 3, V)]
    assert 0 < losses[0] < losses[1] < losses[2] + F32_ATOL


def test_the_gradient_of_the_forward_kl_is_t_times_q_minus_p():
    teacher, student, mask = some_logits()
    expected = distill.forward_kl_gradient(teacher, student, mask, 2.5)
    np.testing.assert_allclose(measured("forward_kl", 2.5, None)[2][1], expected, rtol=0, atol=GRADIENT_ATOL)


@pytest.mark.parametrize("measure", ["forward_kl", "reverse_kl"])
def test_gradients_do_not_shrink_with_the_temperature(measure):
    # Hinton et al. 2015, equation 4: at high T the gradient tends to (z - v) / V, with the logits' means taken off
    teacher, student, mask = some_logits()
    gap = student - teacher
    limit = mask[:, None] * (gap - gap.mean(axis=1, keepdims=True)) / V
    hot = measured(measure, 300.0, None)[2][1]
    np.testing.assert_allclose(np.linalg.norm(hot - limit), 0.0, rtol=0, atol=LIMIT_RTOL * np.linalg.norm(limit))
    plain = measured(measure, 1.0, None)[2][1]
    assert 0.3 < np.linalg.norm(hot) / np.linalg.norm(plain) < 3.0


@pytest.mark.parametrize("measure", MEASURES)
def test_equal_logits_have_no_loss_and_no_gradient(measure):
    teacher, _, mask = some_logits()
    for top_k in (None, 3):
        cell = Differentiated(loss_cell(measure, temperature=1.0, top_k=top_k), 3, wrt=(1,))
        (loss, _), (gradient,), _ = cell((teacher, teacher + 1.0, mask), (1.0, 0.0))
        np.testing.assert_allclose(loss, 0.0, rtol=0, atol=F32_ATOL)
        np.testing.assert_allclose(gradient, 0.0, rtol=0, atol=GRADIENT_ATOL)


@pytest.mark.parametrize("measure", MEASURES)
def test_certain_and_opposite_sides_stay_finite(measure):
    teacher, student = np.zeros((1, V), np.float32), np.zeros((1, V), np.float32)
    teacher[0, 0], student[0, 1] = 300.0, 300.0
    for top_k in (None, 1, 4):
        cell = Differentiated(loss_cell(measure, temperature=1.0, top_k=top_k), 3, wrt=(1,))
        (loss, _), (gradient,), _ = cell((teacher, student, np.ones(1)), (1.0, 0.0))
        assert np.isfinite(loss) and loss > 0 and np.isfinite(gradient).all()


def test_a_batch_with_nothing_to_train_is_zero_not_nan():
    teacher, student, mask = some_logits()
    with eager():
        loss, count = run(loss_cell("forward_kl", temperature=2.0, top_k=3), teacher, student, 0 * mask)
    assert loss == 0 and count == 0


def test_divergences_by_name():
    assert isinstance(divergence("forward_kl"), ForwardKl) and isinstance(divergence("reverse_kl"), ReverseKl)
    assert divergence("jensen_shannon", 0.9).beta == 0.9
    with pytest.raises(ValueError, match="expected a beta for jensen_shannon"):
        divergence("jensen_shannon")
