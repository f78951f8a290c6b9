from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.parallel import ParallelConfig
from llmstack.errors import ConfigError
from tests.helpers.plans import layout, one_cpu


def refused(**changes) -> dict[str, str]:
    options = {"mode": "mesh", "device": "ascend", **changes}
    with pytest.raises(ValidationError) as caught:
        ParallelConfig(**options)
    return {str(error["loc"][0]): error["msg"] for error in caught.value.errors()}


def test_one_device_is_the_default_and_nothing_is_spread():
    single = one_cpu()
    assert single.num_devices == single.num_replicas == 1
    assert (single.compute_dtype, single.recompute, single.optimizer_sharding) == ("float32", "none", "none")


def test_devices_and_replicas_are_products_of_axes():
    mesh = layout(data=2, tensor=8, pipeline=4, context=3, micro_batches=4)
    assert (mesh.num_devices, mesh.num_replicas) == (192, 6)


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"expert": 2}, "expert", "no model here has experts, got 2"),
        ({"mode": "single", "tensor": 2}, "tensor", "`mode` is single, got 2"),
        ({"device": "cpu", "tensor": 2}, "tensor", "`device` is cpu"),
        ({"device": "cpu", "pipeline": 2, "micro_batches": 2}, "pipeline", "`device` is cpu"),
        ({"device": "cpu", "context": 2}, "context", "`device` is cpu"),
        ({"device": "cpu", "data": 2, "compute_dtype": "bfloat16"}, "compute_dtype", "expected float32"),
        ({"sequence_parallel": True}, "sequence_parallel", "`tensor` is 1"),
        ({"micro_batches": 2}, "micro_batches", "`pipeline` is 1"),
        ({"interleave": 2}, "interleave", "`pipeline` is 1"),
        ({"pipeline": 4, "micro_batches": 3}, "micro_batches", "at least `pipeline` (4)"),
        ({"pipeline": 4, "micro_batches": 6, "interleave": 2}, "micro_batches", "Write 8."),
        ({"optimizer_sharding": "level1", "tensor": 2}, "optimizer_sharding", "nobody could share"),
        ({"master_dtype": "bfloat16"}, "master_dtype", "`compute_dtype` is float32"),
    ],
)
def test_what_does_not_go_together_is_refused_at_its_key(changes, key, words):
    found = refused(**changes)
    assert set(found) == {key}
    assert words in found[key]


def test_a_cpu_shares_rows_and_nothing_else():
    assert ParallelConfig(mode="mesh", device="cpu", data=2).num_devices == 2


def test_the_checks_of_a_recipe_name_the_line(monkeypatch):
    with pytest.raises(ConfigError) as caught:
        load_recipe("quickstart", ["parallel.mode=mesh", "parallel.pipeline=2", "parallel.micro_batches=2"])
    (problem,) = caught.value.problems
    assert (problem.path, problem.where) == ("parallel.pipeline", "command line")
