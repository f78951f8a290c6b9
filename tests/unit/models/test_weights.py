from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from llmstack.errors import UserError
from llmstack.models.causal_lm import CausalLM
from llmstack.models.weights import check_match, export_arrays, import_arrays
from tests.helpers.cells import run
from tests.helpers.models import rows, tiny_config


def test_round_trip_is_exact_and_seen_by_a_compiled_graph():
    source, target = CausalLM(tiny_config(), seed=1), CausalLM(tiny_config(), seed=2)
    batch = rows(((5,),), 6)
    wanted, before = run(source, *batch), run(target, *batch)
    import_arrays(target, export_arrays(source), source="test")
    np.testing.assert_array_equal(run(target, *batch), wanted)
    assert not np.array_equal(before, wanted)


def test_arrays_are_copies():
    model = CausalLM(tiny_config())
    arrays = export_arrays(model)
    kept = arrays["head.weight"].copy()
    model.head.weight.set_data(Tensor(np.zeros_like(kept)))
    ms.ops.assign(model.trunk.norm.weight, Tensor(np.zeros(20, np.float32)))
    np.testing.assert_array_equal(arrays["head.weight"], kept)
    np.testing.assert_array_equal(arrays["trunk.norm.weight"], np.ones(20))


def test_names_do_not_change_when_the_model_is_wrapped():
    class Wrapper(nn.Cell):
        def __init__(self, model):
            super().__init__()
            self.objective = model

    model = CausalLM(tiny_config())
    before = list(export_arrays(model))
    Wrapper(model)
    assert list(export_arrays(model)) == before


def test_every_difference_is_listed_and_nothing_is_changed():
    model = CausalLM(tiny_config())
    arrays = export_arrays(model)
    kept = arrays["trunk.embedding"].copy()
    arrays["trunk.embedding"] = arrays["trunk.embedding"] + 1
    arrays["trunk.norm.weight"] = np.ones(3, np.float32)
    arrays["extra"] = arrays.pop("head.weight")
    with pytest.raises(UserError, match="missing: head.weight; unexpected: extra; wrong shape: trunk.norm.weight") as e:
        import_arrays(model, arrays, source="somewhere")
    assert str(e.value).startswith("somewhere: expected exactly the weights of the model")
    np.testing.assert_array_equal(model.trunk.embedding.asnumpy(), kept)


def test_a_match_passes_silently():
    check_match({"a": (1, 2)}, {"a": (1, 2)}, source="test")
