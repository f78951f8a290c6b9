from __future__ import annotations

import numpy as np
import pytest

from llmstack.losses.cross_entropy import MaskedCrossEntropy
from tests.helpers.cells import differentiate, run
from tests.reference.cross_entropy import cross_entropy, cross_entropy_gradient
from tests.tolerances import EXACT, F32_ATOL, F32_RTOL, GRADIENT_ATOL


def test_by_hand():
    # logits ln 1, ln 3: probabilities 1/4 and 3/4; the second row is not trained
    logits = np.log(np.array([[1.0, 3.0], [1.0, 1.0], [3.0, 1.0]]))
    loss, count = run(MaskedCrossEntropy(), logits, [1, 0, 1], [1.0, 0.0, 1.0])
    np.testing.assert_allclose(loss, np.log(4 / 3) + np.log(4), rtol=F32_RTOL, atol=0)
    assert count == 2


def test_z_loss_by_hand():
    # log Z of both rows is ln 4; ln 4 - ln 3 + 0.5 (ln 4)^2
    logits = np.log(np.array([[1.0, 3.0]]))
    loss, _ = run(MaskedCrossEntropy(0.5), logits, [1], [1.0])
    np.testing.assert_allclose(loss, np.log(4 / 3) + 0.5 * np.log(4) ** 2, rtol=F32_RTOL, atol=0)


@pytest.mark.parametrize("z_loss", [0.0, 0.01])
def test_matches_the_oracle(z_loss):
    rng = np.random.default_rng(0)
    logits = rng.normal(0.0, 2.0, (11, 21)).astype(np.float32)
    labels = rng.integers(0, 21, 11).astype(np.int32)
    mask = (rng.random(11) < 0.6).astype(np.float32)
    (loss, count), (gradient,), _ = differentiate(MaskedCrossEntropy(z_loss), (logits, labels, mask), (1.0, 0.0))
    expected_loss, expected_count = cross_entropy(logits, labels, mask, z_loss)
    np.testing.assert_allclose(loss, expected_loss, rtol=F32_RTOL, atol=F32_ATOL)
    assert count == expected_count
    expected = cross_entropy_gradient(logits, labels, mask, z_loss)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=GRADIENT_ATOL)
    np.testing.assert_allclose(gradient[mask == 0], 0.0, rtol=0, atol=EXACT)


def test_a_batch_with_nothing_to_train_is_zero_not_nan():
    logits = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    (loss, count), (gradient,), _ = differentiate(MaskedCrossEntropy(0.1), (logits, [0, 1, 2], np.zeros(3)), (1.0, 0.0))
    assert loss == 0 and count == 0
    np.testing.assert_array_equal(gradient, np.zeros((3, 5)))
