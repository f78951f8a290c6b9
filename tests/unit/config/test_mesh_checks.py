from __future__ import annotations

import pytest

from llmstack.config.load import load_recipe
from llmstack.config.mesh_checks import model_problems, nearest_divisor, nearest_multiple, stage_problems
from llmstack.errors import ConfigError
from tests.helpers.plans import layout, published, small


@pytest.mark.parametrize(
    ("size", "wanted", "nearest"), [(12, 5, 4), (12, 4, 4), (12, 7, 6), (12, 9, 6), (7, 3, 1), (28, 8, 7), (1, 9, 1)]
)
def test_the_nearest_divisor(size, wanted, nearest):
    assert nearest_divisor(size, wanted) == nearest


@pytest.mark.parametrize(("size", "parts", "nearest"), [(10, 4, 12), (9, 4, 8), (1, 4, 4), (8, 4, 8), (64, 12, 60)])
def test_the_nearest_multiple(size, parts, nearest):
    assert nearest_multiple(size, parts) == nearest


def problems(parallel, **sizes):
    return dict(model_problems(parallel, small(**sizes)))


def test_a_mesh_that_divides_has_no_problem():
    assert problems(layout(tensor=4, pipeline=2, micro_batches=2, interleave=2)) == {}


def test_fewer_key_value_heads_than_tensor_ranks_are_refused():
    found = problems(layout(tensor=8))
    assert found == {
        "parallel.tensor": "expected a divisor of model.num_key_value_heads (4), got 8. The nearest tensor that fits "
        "is 4."
    }


def test_the_nearest_tensor_fits_all_of_the_model():
    found = dict(model_problems(layout(tensor=16), published("Qwen2.5-32B")))
    assert "num_attention_heads (40), got 16. The nearest tensor that fits is 8." in found["parallel.tensor"]


def test_heads_feed_forward_vocabulary_and_layers_have_to_be_divided():
    assert "num_attention_heads (8), got 3" in problems(layout(tensor=3))["parallel.tensor"]
    assert "intermediate_size (30), got 4" in problems(layout(tensor=4), intermediate_size=30)["parallel.tensor"]
    assert "got 62. Write 64: spare rows" in problems(layout(tensor=4), vocab_size=62)["model.vocab_size"]
    assert problems(layout(tensor=4), vocab_size=None) == {}
    found = problems(layout(pipeline=3, micro_batches=3))
    assert found == {"parallel.pipeline": "expected a divisor of the 4 layers of model, got 3. The nearest pipeline "
                     "that does is 2."}  # fmt: skip
    found = problems(layout(pipeline=2, micro_batches=2, interleave=4))
    assert (
        "divisor of the 2 layers of model, got 4. The nearest interleave that does is 2" in found["parallel.interleave"]
    )


@pytest.fixture(scope="module")
def stages():
    pinned = {"policy.batch_rows": 64, "policy.minibatches": 4, "policy.prompt_buckets": [56], "base.batch_rows": 8}
    return load_recipe("quickstart", [f"stages.{key}={value}" for key, value in pinned.items()]).config.stages


def of_stage(parallel, name, stages, **changes):
    return dict(stage_problems(parallel, name, stages[name].model_copy(update=changes)))


def test_rows_are_those_of_all_ranks_and_micro_batches(stages):
    assert of_stage(layout(data=8), "base", stages) == {}
    assert (
        "multiple of parallel.data (3), got 8. Write 9."
        in of_stage(layout(data=3), "base", stages)["stages.base.batch_rows"]
    )
    found = of_stage(layout(data=2, pipeline=2, micro_batches=8), "base", stages)["stages.base.batch_rows"]
    assert "parallel.data times parallel.micro_batches (16), got 8. Write 16." in found


def test_an_iteration_is_cut_into_minibatches_before_the_mesh_cuts_it(stages):
    assert of_stage(layout(data=16), "policy", stages) == {}
    found = of_stage(layout(data=32), "policy", stages)["stages.policy.batch_rows"]
    assert "minibatches times accumulate times parallel.data (128), got 64. Write 128." in found
    found = of_stage(layout(data=16), "policy", stages, samples_per_prompt=8)["stages.policy.batch_rows"]
    assert "parallel.data times samples_per_prompt (128), got 64. Write 128." in found


def test_text_that_is_mixed_in_is_shared_too(stages):
    text = stages["policy"].model_copy(update={"pretraining": type("Text", (), {"batch_rows": 6, "seq_len": 8})()})
    found = dict(stage_problems(layout(data=4), "policy", text))
    assert found == {
        "stages.policy.pretraining.batch_rows": "expected a multiple of 4, which the mesh needs, got 6. Write 8."
    }


def test_context_ranks_share_the_tokens_of_a_row(stages):
    assert of_stage(layout(context=4), "base", stages) == {}
    found = of_stage(layout(context=5), "base", stages)["stages.base.seq_len"]
    assert "multiple of parallel.context (5) tokens, got 256. Write 255." in found
    found = of_stage(layout(context=5), "policy", stages)["stages.policy.response_len"]
    assert "got 56 + 32. Write 34." in found


def test_a_recipe_is_told_all_of_it_at_once():
    overrides = ["parallel.mode=mesh", "parallel.device=ascend", "parallel.data=3", "parallel.tensor=3"]
    with pytest.raises(ConfigError) as caught:
        load_recipe("quickstart", overrides)
    rows = {f"stages.{name}.batch_rows" for name in ("base", "sft", "rm", "policy")}
    assert {problem.path for problem in caught.value.problems} == {"parallel.tensor", "model.vocab_size", *rows}
