from __future__ import annotations

import numpy as np
import pytest

from llmstack.losses.pairwise import PairwiseLoss
from tests.helpers.cells import differentiate, run
from tests.reference.pairwise import pairwise, pairwise_gradient
from tests.tolerances import F32_ATOL, F32_RTOL, GRADIENT_ATOL


def test_by_hand():
    # leads of ln 3 and 0: probabilities of the right order 3/4 and 1/2; centering 0.5 (1 + 1)^2 on the second pair
    chosen, rejected = [np.log(3.0) / 2, 1.0], [-np.log(3.0) / 2, 1.0]
    loss, count = run(PairwiseLoss(0.5), chosen, rejected, [0.0, 0.0])
    np.testing.assert_allclose(loss, np.log(4 / 3) + np.log(2) + 2, rtol=F32_RTOL, atol=0)
    assert count == 2


def test_a_tie_still_has_a_gradient():
    # a fresh scalar head scores everything alike; training must be able to start from there
    _, (chosen, rejected), _ = differentiate(PairwiseLoss(), ([0.0], [0.0], [0.0]), (1.0, 0.0), wrt=(0, 1))
    assert chosen == [-0.5] and rejected == [0.5]


def test_smoothed_labels_by_hand():
    # at a lead of ln 3 the probabilities are 3/4 and 1/4: 0.9 ln 4/3 + 0.1 ln 4; at ln 9 nothing is left to gain
    loss, _ = run(PairwiseLoss(0.0, 0.1), [np.log(3.0) + 0.5], [0.0], [0.5])
    np.testing.assert_allclose(loss, 0.9 * np.log(4 / 3) + 0.1 * np.log(4), rtol=F32_RTOL, atol=0)
    best = ([np.log(9.0)], [0.0], [0.0])
    _, (chosen, rejected), _ = differentiate(PairwiseLoss(0.0, 0.1), best, (1.0, 0.0), wrt=(0, 1))
    np.testing.assert_allclose([chosen, rejected], 0.0, atol=GRADIENT_ATOL)


@pytest.mark.parametrize(("centering", "smoothing"), [(0.0, 0.0), (0.1, 0.0), (0.1, 0.2)])
def test_matches_the_oracle(centering, smoothing):
    rng = np.random.default_rng(0)
    chosen, rejected = rng.normal(size=(2, 9)).astype(np.float32)
    # hopeless and certain pairs: no overflow, no vanished gradient
    chosen[:2], rejected[:2] = (-60.0, 60.0), (60.0, -60.0)
    margin = rng.random(9).astype(np.float32)
    (loss, count), gradients, _ = differentiate(
        PairwiseLoss(centering, smoothing), (chosen, rejected, margin), (1.0, 0.0), wrt=(0, 1)
    )
    expected_loss, expected_count = pairwise(chosen, rejected, margin, centering, smoothing)
    np.testing.assert_allclose(loss, expected_loss, rtol=F32_RTOL, atol=F32_ATOL)
    assert count == expected_count
    for ours, theirs in zip(gradients, pairwise_gradient(chosen, rejected, margin, centering, smoothing), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=GRADIENT_ATOL)
