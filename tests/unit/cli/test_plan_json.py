from __future__ import annotations

import json

import pytest

from llmstack.cli.plan_json import as_json
from llmstack.config.load import load_recipe
from llmstack.parallel.plan.plan import make_plan


@pytest.fixture(scope="module")
def found():
    config = load_recipe("cluster_7b_8").config
    return json.loads(json.dumps(as_json(make_plan(config, ["cluster_7b_8"], None, config.hardware))))


def test_sums_are_the_sums_of_their_parts(found):
    for stage in found["stages"].values():
        memory, seconds = stage["memory_bytes"], stage["seconds"]
        assert memory.pop("total") == pytest.approx(sum(memory.values()))
        assert seconds.pop("total") == pytest.approx(sum(seconds.values()))
        flops = stage["flops_per_step"]
        assert flops["total"] == pytest.approx(flops["matmul"] + flops["attention"])
        assert stage["flops_per_token"]["without"] == pytest.approx(flops["matmul"] / stage["tokens_per_step"])


def test_networks_are_counted_by_group(found):
    policy, critic, reference, reward = found["stages"]["policy"]["networks"]
    assert policy["total"] == sum(policy["parameters"].values()) == 6_738_415_616 == policy["trained"]
    assert critic["head"] == reward["head"] == "scalar" and reference["trained"] == 0


def test_layouts_carry_their_reasons(found):
    assert found["layouts"][0]["reason"] == "" and all(each["reason"] for each in found["layouts"][1:])
    assert all(each["reason"] for each in found["unfit"])


def test_what_is_not_known_is_null():
    config = load_recipe("quickstart").config
    found = as_json(make_plan(config, ["quickstart"], None, None))
    assert found["hardware"] is None
    assert {stage["seconds"] for stage in found["stages"].values()} == {None}
