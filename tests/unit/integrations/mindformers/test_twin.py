from __future__ import annotations

import numpy as np
import pytest
from mindspore import Parameter, Tensor

from llmstack.integrations.mindformers.twin import CopyRows, Twin, row_origins, stored_arrays, stored_shapes
from llmstack.integrations.mindformers.weights import to_mindformers
from llmstack.models.checkpoint_io import build_causal
from llmstack.models.weights import export_arrays
from tests.helpers.models import oracle_weights, tiny_config


def parameter(name, values):
    return Parameter(Tensor(np.asarray(values, np.float32)), name=name)


def test_rows_are_copied_in_the_order_asked_for():
    sources = [parameter("a", [[1, 2], [3, 4], [5, 6]]), parameter("b", [7, 8])]
    targets = [parameter("c", np.zeros((2, 2))), parameter("d", np.zeros(2))]
    copy = CopyRows(sources, targets, [np.array([2, 0]), None])
    for shift in (0, 10):
        for source in sources:
            source.set_data(source + shift)
        copy()
        np.testing.assert_array_equal(targets[0].asnumpy(), np.array([[5, 6], [1, 2]]) + shift)
        np.testing.assert_array_equal(targets[1].asnumpy(), np.array([7, 8]) + shift)


@pytest.mark.parametrize("tied", [False, True])
def test_weights_have_the_names_of_hugging_face(tied):
    model = build_causal(tiny_config(tie_word_embeddings=tied), seed=1)
    ours, wanted = stored_arrays(model), oracle_weights(model)
    assert ours.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(ours[name], array)
    assert stored_shapes(model) == {name: array.shape for name, array in wanted.items()}


def test_each_row_says_where_it_came_from():
    config = tiny_config()
    weights = oracle_weights(build_causal(config, seed=1))
    theirs = to_mindformers(weights, config)
    origins = row_origins({name: array.shape for name, array in theirs.items()}, config)
    assert origins.keys() == weights.keys()
    for name, (source, rows) in origins.items():
        np.testing.assert_array_equal(theirs[source][rows], weights[name])


class Network:
    """Stands for a MindFormers network: parameters under its names."""

    def __init__(self, arrays):
        self._parameters = {name: parameter(name, array) for name, array in arrays.items()}

    def parameters_and_names(self):
        return self._parameters.items()


def test_the_model_follows_the_network():
    config = tiny_config(num_hidden_layers=1)
    first, later = build_causal(config, seed=1), build_causal(config, seed=2)
    network = Network(to_mindformers(stored_arrays(later), config))
    twin = Twin(first, network)
    assert twin.refresh() is first
    for name, array in export_arrays(later).items():
        np.testing.assert_array_equal(export_arrays(first)[name], array)
