from __future__ import annotations

import pytest

from llmstack.config.hardware import read_hardware
from llmstack.config.load import load_recipe
from llmstack.errors import ConfigError, UserError
from llmstack.parallel.plan.plan import make_plan
from tests.helpers.plans import card
from tests.meta.source import ROOT

CLUSTER = ["cluster_0_5b_1", "cluster_7b_8", "cluster_7b_64", "cluster_32b_128", "cluster_72b_128k"]
DEVICES = dict(zip(CLUSTER, (1, 8, 64, 128, 256), strict=True))


def plan_of(recipe, *overrides, devices=None, hardware=None, only=None):
    config = load_recipe(recipe, overrides).config
    return make_plan(config, [recipe], devices, hardware or config.hardware, only=only)


@pytest.fixture(scope="module")
def plans():
    return {name: plan_of(name) for name in CLUSTER}


@pytest.mark.parametrize("name", CLUSTER)
def test_each_cluster_recipe_has_room_on_its_devices(name, plans):
    plan = plans[name]
    assert plan.fits and plan.own and plan.parallel.num_devices == DEVICES[name]
    assert all(0.1 < stage.time.mfu < 0.61 for stage in plan.stages)
    assert "cluster_" in plan.command


def test_the_best_layout_is_no_slower_than_the_recipes_own(plans):
    for plan in plans.values():
        own = sum(stage.time.total for stage in plan.stages)
        assert plan.layouts[0].fits and plan.layouts[0].seconds <= own * (1 + 1e-9)


def test_a_checkpoint_holds_weights_and_moments_and_the_model_its_weights(plans):
    stage = plans["cluster_7b_8"].stages[0]
    assert stage.checkpoint == 12 * 6_738_415_616 and stage.final == 4 * 6_738_415_616
    adapters = plan_of("quickstart", "+lora@stages.sft=dialogue", only="sft").stages[0]
    assert adapters.checkpoint < adapters.final


def test_a_published_layout_fits_as_published():
    # MindFormers 1.9, configs/qwen3/pretrain_qwen3_32b_4k.yaml: 16 cards of 58 GB, tensor 4, pipeline 4, four
    # micro-batches of one row, whole layers computed twice. Sizes of Qwen3-32B.
    sizes = ["model.family=qwen3", "model.attention_bias=false", "+model.qk_norm=true", "model.num_attention_heads=64",
             "model.intermediate_size=25600", "model.vocab_size=151936"]  # fmt: skip
    mesh = ["parallel.data=1", "parallel.tensor=4", "parallel.micro_batches=4", "parallel.sequence_parallel=false",
            "parallel.optimizer_sharding=none", "parallel.recompute=full"]  # fmt: skip
    rows = ["stages.base.batch_rows=4", "stages.base.accumulate=1"]
    plan = plan_of("cluster_32b_128", *sizes, *mesh, *rows, only="base")
    assert plan.fits
    assert not plan_of("cluster_32b_128", *sizes, *mesh[:-1], "parallel.recompute=none", *rows, only="base").fits


def test_without_hardware_there_are_bytes_and_no_times():
    plan = plan_of("quickstart")
    assert plan.hardware is None and plan.layouts == () and plan.fits
    assert all(stage.time is None and stage.memory.total > 0 for stage in plan.stages)
    assert plan_of("quickstart", devices=8).parallel.data == 8


def test_one_device_of_a_recipe_is_spread_over_those_that_are_named(tmp_path):
    plan = plan_of("quickstart", devices=4, hardware=card(memory_gb=4.0))
    assert not plan.own and plan.parallel == plan.layouts[0].parallel and plan.parallel.num_devices == 4
    assert plan.parallel.device == "ascend" and "parallel.device=ascend" in plan.command
    assert "parallel.device=ascend" in plan_of("quickstart", hardware=card(memory_gb=4.0)).command


@pytest.mark.parametrize(
    ("recipe", "options", "words"),
    [
        ("quickstart", {"only": "bsae"}, "--stage: expected one of base, sft, rm, policy, got 'bsae'"),
        ("cluster_7b_64", {"devices": 16}, "data 8 x context 1 x tensor 8 = 64), got 16. Write parallel.data=2"),
        ("cluster_7b_64", {"devices": 12}, "Give a multiple of 8"),
        ("cluster_7b_8", {"devices": 6}, "`parallel=ascend` to compare all layouts"),
    ],
)
def test_what_cannot_be_planned_is_refused(recipe, options, words):
    with pytest.raises(UserError) as caught:
        plan_of(recipe, **options)
    assert words in str(caught.value)


def test_devices_that_nothing_divides_say_why():
    hardware = read_hardware("ascend_910b", ROOT)
    with pytest.raises(UserError, match=r"--devices: expected a number some mesh of which divides the recipe, got 7: "):
        plan_of("quickstart", devices=7, hardware=hardware)


def test_a_mesh_that_does_not_divide_is_refused_at_its_key():
    with pytest.raises(ConfigError) as caught:
        plan_of("quickstart", devices=3)
    assert "stages.base.batch_rows" in {problem.path for problem in caught.value.problems}
