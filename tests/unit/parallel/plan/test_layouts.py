from __future__ import annotations

from dataclasses import replace

import pytest

from llmstack.config.load import load_recipe
from llmstack.parallel.plan.layouts import (
    Job,
    describe_part,
    evaluate,
    fewest_devices,
    overrides,
    problems,
    rank,
    settings,
)
from llmstack.parallel.plan.work import work_of
from tests.helpers.plans import card, layout, model_of, one_cpu


def job(**hardware) -> Job:
    stages = {"base": load_recipe("quickstart").config.stages["base"]}
    model = model_of((256, 4, 8, 4, 32, 512, 2048))
    works = tuple(work_of(name, stage, lambda source: model) for name, stage in stages.items())
    return Job(works, stages, {"model": model}, layout(), card(**hardware))


@pytest.fixture(scope="module")
def ranked():
    return rank(job(), 8)


def test_the_best_comes_first_and_the_others_say_what_they_lose_by(ranked):
    layouts, _ = ranked
    assert [each.reason == "" for each in layouts] == [True] + [False] * (len(layouts) - 1)
    fitting = [each for each in layouts if each.fits]
    assert [each.seconds for each in fitting] == sorted(each.seconds for each in fitting)
    assert all("% slower: " in each.reason for each in fitting[1:])


def test_every_mesh_of_as_many_devices_is_there_once(ranked):
    layouts, unfit = ranked
    meshes = [
        (each.parallel.pipeline, each.parallel.data, each.parallel.context, each.parallel.tensor) for each in layouts
    ]
    meshes += [tuple(each.axes.values()) for each in unfit]
    # the ways to write 8 as a product of four numbers
    assert len(meshes) == len(set(meshes)) == 20
    assert all(each.parallel.num_devices == 8 for each in layouts)


def test_meshes_that_do_not_divide_say_what(ranked):
    reasons = {tuple(each.axes.values()): each.reason for each in ranked[1]}
    assert "num_key_value_heads (4), got 8" in reasons[(1, 1, 1, 8)]
    assert "divisor of the 4 layers" in reasons[(8, 1, 1, 1)]


def test_tensor_ranks_take_sequence_parallelism_and_a_pipeline_all_micro_batches(ranked):
    for each in ranked[0]:
        assert each.parallel.sequence_parallel == (each.parallel.tensor > 1)
        rows = 8 // each.parallel.data
        assert each.parallel.micro_batches == (rows if each.parallel.pipeline > 1 else 1)


def test_without_room_the_smallest_need_comes_first_with_what_takes_most():
    layouts, _ = rank(job(memory_gb=1e-3), 8)
    assert not any(each.fits for each in layouts)
    assert [each.fullest for each in layouts] == sorted(each.fullest for each in layouts)
    assert "of 0.0 in base, " in layouts[0].reason and " alone " in layouts[0].reason


def test_recomputation_and_sharding_are_taken_when_memory_is_short():
    roomy = rank(job(), 2)[0][0]
    tight = rank(job(memory_gb=roomy.fullest * 0.8 / 1e9), 2)[0][0]
    assert roomy.parallel.recompute == "none"
    assert tight.fits and tight.fullest < roomy.fullest and tight.seconds >= roomy.seconds


def test_more_devices_are_looked_for_until_something_fits():
    needed = rank(job(), 8)[0][0].fullest
    found = fewest_devices(job(memory_gb=needed * 1.01 / 1e9), 1)
    assert found is not None and found.fits and 2 <= found.parallel.num_devices <= 8
    assert fewest_devices(job(memory_gb=1e-6), 2048) is None


def test_a_layout_is_tried_on_every_stage():
    two = job()
    two = replace(two, works=(two.works[0], two.works[0]))
    once, twice = evaluate(job(), layout(data=2)), evaluate(two, layout(data=2))
    assert twice.seconds == pytest.approx(2 * once.seconds) and twice.fullest == once.fullest
    assert twice.parts["compute"] == pytest.approx(2 * once.parts["compute"])
    assert list(problems(job(), layout(data=2))) == []
    assert dict(problems(job(), layout(data=3))).keys() == {"stages.base.batch_rows"}


def test_a_layout_in_words_and_as_arguments():
    parallel = layout(tensor=4, data=2, sequence_parallel=True, optimizer_sharding="level1")
    assert list(settings(parallel)) == ["tensor", "data", "sequence_parallel", "optimizer_sharding"]
    assert overrides(parallel, parallel) == []
    assert overrides(layout(data=2), one_cpu()) == ["parallel.mode=mesh", "parallel.device=ascend", "parallel.data=2"]
    assert "parallel.sequence_parallel=true" in overrides(parallel, layout())
    assert describe_part("tensor") == "tensor traffic" and describe_part("bubble") == "waiting in the pipeline"
    assert describe_part("compute") == "compute"
