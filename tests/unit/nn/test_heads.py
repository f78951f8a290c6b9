from __future__ import annotations

import numpy as np
from mindspore import Parameter, Tensor

from llmstack.nn.heads import LanguageHead, ScalarHead
from tests.helpers.cells import run


def test_language_head_by_hand():
    head = LanguageHead(2, 3)
    head.weight.set_data(Tensor(np.array([[1, 0], [0, 1], [2, -1]], np.float32)))
    np.testing.assert_array_equal(run(head, np.array([[3.0, 5.0]])), [[3, 5, 1]])


def test_a_tied_head_is_the_embedding_itself():
    embedding = Parameter(Tensor(np.ones((3, 2), np.float32)), name="embedding")
    head = LanguageHead(2, 3, tied=embedding)
    assert head.weight is embedding
    embedding.set_data(Tensor(np.full((3, 2), 2.0, np.float32)))
    np.testing.assert_array_equal(run(head, np.ones((1, 2))), [[4, 4, 4]])


def test_scalar_head_by_hand():
    head = ScalarHead(2)
    head.weight.set_data(Tensor(np.array([[10, -1]], np.float32)))
    np.testing.assert_array_equal(run(head, np.array([[1.0, 2.0], [0.0, 3.0]])), [8, -3])
