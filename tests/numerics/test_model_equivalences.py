"""The same tokens, arranged or computed in another way, give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import nn, ops

from llmstack.losses.cross_entropy import MaskedCrossEntropy
from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel
from llmstack.nn import kernels
from tests.helpers.cells import Differentiated, eager, run
from tests.helpers.models import rows, tiny_config, vary_norms
from tests.tolerances import EQUIVALENCE_ATOL, EXACT, F32_RTOL


class Objective(nn.Cell):
    """Mean next-token loss and the logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.loss = MaskedCrossEntropy(0.01)

    def construct(self, tokens, labels, positions, segments, loss_mask):
        logits = self.model(tokens, positions, segments)
        loss_sum, count = self.loss(
            ops.reshape(logits, (-1, logits.shape[-1])), ops.reshape(labels, (-1,)), ops.reshape(loss_mask, (-1,))
        )
        return loss_sum / count, logits


def model_of(**changes):
    model = CausalLM(tiny_config(**changes), seed=5)
    vary_norms(model)
    return model


@pytest.fixture(scope="module")
def objective():
    return Differentiated(Objective(model_of()), 5, wrt=())


def lay_out(documents, arrangement, num_tokens, *, pad_left=0, seed=0):
    """Write documents into rows.

    Args:
        documents: list of token arrays.
        arrangement: for each row, which documents it holds.
        num_tokens: T.
        pad_left: pads before each row's first document; a list gives one number a row.
        seed: of the tokens and labels of the padding.

    Returns:
        ((tokens, labels, positions, segments, loss_mask), list of (row, start) of each document).
    """
    pads = [pad_left] * len(arrangement) if isinstance(pad_left, int) else pad_left
    rng = np.random.default_rng(seed)
    shape = (len(arrangement), num_tokens)
    tokens, labels = rng.integers(0, 37, shape).astype(np.int32), rng.integers(0, 37, shape).astype(np.int32)
    positions, segments, mask = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    places = {}
    for row, numbers in enumerate(arrangement):
        start = pads[row]
        for segment, number in enumerate(numbers, start=1):
            document = documents[number]
            here = slice(start, start + len(document))
            tokens[row, here], positions[row, here], segments[row, here] = document, np.arange(len(document)), segment
            labels[row, start : here.stop - 1] = document[1:]
            mask[row, start : here.stop - 1] = 1.0
            places[number] = (row, start)
            start = here.stop
    return (tokens, labels, positions, segments, mask), [places[number] for number in range(len(documents))]


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(1)
    return [rng.integers(0, 37, length).astype(np.int32) for length in (5, 3, 7, 2)]


def assert_same(objective, documents, first, second):
    """Loss, gradients and each document's logits agree between two layouts."""
    (one, one_places), (two, two_places) = first, second
    (loss, logits), _, gradients = objective(one, (1.0, np.zeros(1)))
    (other_loss, other_logits), _, other_gradients = objective(two, (1.0, np.zeros(1)))
    np.testing.assert_allclose(other_loss, loss, rtol=0, atol=EQUIVALENCE_ATOL)
    for document, (row, start), (other_row, other_start) in zip(documents, one_places, two_places, strict=True):
        ours = logits[row, start : start + len(document)]
        theirs = other_logits[other_row, other_start : other_start + len(document)]
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=EQUIVALENCE_ATOL)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(other_gradients[name], gradient, rtol=F32_RTOL, atol=EQUIVALENCE_ATOL, err_msg=name)


def test_packed_equals_unpacked(objective, documents):
    packed = lay_out(documents, [(0, 2), (1, 3)], 12)
    apart = lay_out(documents, [(0,), (1,), (2,), (3,)], 8)
    assert_same(objective, documents, packed, apart)


def test_left_padded_equals_right_padded(objective, documents):
    right = lay_out(documents, [(0,), (1,), (2,), (3,)], 8)
    left = lay_out(documents, [(0,), (1,), (2,), (3,)], 8, pad_left=[3, 5, 1, 6], seed=9)
    assert_same(objective, documents, right, left)


def test_more_padding_and_other_neighbours_change_nothing(objective, documents):
    tight = lay_out(documents, [(0, 2), (1, 3)], 12)
    loose = lay_out(documents, [(3, 0, 1), (2,)], 16, pad_left=[2, 4], seed=9)
    assert_same(objective, documents, tight, loose)


def test_what_padding_holds_changes_nothing_at_all(objective, documents):
    one, _ = lay_out(documents, [(0, 2), (1, 3)], 12, seed=0)
    two, _ = lay_out(documents, [(0, 2), (1, 3)], 12, seed=9)
    assert not np.array_equal(one[0], two[0])
    (loss, logits), _, gradients = objective(one, (1.0, np.zeros(1)))
    (other_loss, other_logits), _, other_gradients = objective(two, (1.0, np.zeros(1)))
    real = one[3] > 0
    assert loss == other_loss
    np.testing.assert_allclose(other_logits[real], logits[real], rtol=0, atol=EXACT)
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(other_gradients[name], gradient, err_msg=name)


def test_a_token_seen_only_in_padding_gets_no_gradient(objective):
    document = np.array([1, 2, 3, 4], np.int32)
    (tokens, labels, positions, segments, mask), _ = lay_out([document], [(0,)], 8)
    tokens[segments == 0] = 30
    _, _, gradients = objective((tokens, labels, positions, segments, mask), (1.0, np.zeros(1)))
    np.testing.assert_array_equal(gradients["model.trunk.embedding"][30], 0.0)
    assert np.abs(gradients["model.trunk.embedding"][1:5]).min(axis=1).max() > 0


def test_a_masked_row_adds_nothing(objective, documents):
    (tokens, labels, positions, segments, mask), _ = lay_out(documents, [(0, 2), (1, 3)], 12)
    mask[1] = 0
    (loss, _), _, gradients = objective((tokens, labels, positions, segments, mask), (1.0, np.zeros(1)))
    other_tokens, other_labels = tokens.copy(), labels.copy()
    other_tokens[1], other_labels[1] = tokens[1][::-1], labels[1][::-1]
    (other_loss, _), _, other_gradients = objective(
        (other_tokens, other_labels, positions, segments, mask), (1.0, np.zeros(1))
    )
    assert loss == other_loss
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(other_gradients[name], gradient, err_msg=name)


def test_later_tokens_do_not_change_earlier_logits():
    model = model_of()
    tokens, positions, segments = rows(((9,),), 9)
    changed = tokens.copy()
    changed[0, 6:] = (changed[0, 6:] + 1) % 37
    before, after = run(model, tokens, positions, segments), run(model, changed, positions, segments)
    np.testing.assert_allclose(after[0, :6], before[0, :6], rtol=0, atol=EXACT)
    assert not np.allclose(after[0, 6:], before[0, 6:])


@pytest.mark.parametrize("tied", [False, True])
def test_every_parameter_of_a_language_model_is_trained(tied, documents):
    objective = Differentiated(Objective(model_of(tie_word_embeddings=tied)), 5, wrt=())
    batch, _ = lay_out(documents, [(0, 2), (1, 3)], 12)
    _, _, gradients = objective(batch, (1.0, np.zeros(1)))
    for name, gradient in gradients.items():
        used = gradient[np.unique(batch[0][batch[4] > 0])] if name == "model.trunk.embedding" else gradient
        assert (used != 0).all(), name


def test_every_parameter_of_a_scalar_model_is_trained():
    model = ScalarModel(tiny_config(), seed=5)
    tokens, positions, segments = rows(((9,),), 9)
    weights = np.random.default_rng(0).normal(size=(1, 9))
    _, _, gradients = Differentiated(model, 3, wrt=())((tokens, positions, segments), (weights,))
    for name, gradient in gradients.items():
        used = gradient[np.unique(tokens)] if name == "trunk.embedding" else gradient
        assert (used != 0).all(), name


def _all_numbers(documents):
    batch, _ = lay_out(documents, [(0, 2), (1, 3)], 12)
    (loss, logits), _, gradients = Differentiated(Objective(model_of()), 5, wrt=())(batch, (1.0, np.zeros(1)))
    return {"loss": loss, "logits": logits, **gradients}


def _assert_close(first, second):
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=F32_RTOL, atol=EQUIVALENCE_ATOL, err_msg=name)


def test_graph_equals_operator_by_operator(documents):
    graph = _all_numbers(documents)
    with eager():
        _assert_close(graph, _all_numbers(documents))


@pytest.mark.skipif(not kernels.has_native(), reason="no C++ compiler on this machine")
def test_compiled_kernels_equal_composed_operators(documents, monkeypatch):
    native = _all_numbers(documents)
    monkeypatch.setattr(kernels, "library", lambda: None)
    _assert_close(native, _all_numbers(documents))
