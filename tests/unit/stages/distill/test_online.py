"""A student on its own answers: it nears the teacher, alone moves, and resumes exactly."""

from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.distill import DistillOnlineConfig
from llmstack.models.weights import export_arrays
from llmstack.runtime import compile_count
from llmstack.stages.distill.online import DistillOnlineStage
from tests.helpers import stages as tiny
from tests.tolerances import EQUIVALENCE_ATOL, F32_ATOL, LOGP_MATCH_ATOL


def make(folder, teacher, **changes):
    prompts = tiny.write_jsonl(folder / "prompts.jsonl", [{"prompt": text} for text in tiny.colours(12)])
    source = {"source": "jsonl", "record": "prompt", "path": prompts}
    options = {
        "kind": "distill_online",
        "data": source,
        "eval_data": source,
        "teacher": str(teacher),
        "yardsticks": {"style": {"kind": "pep257_style"}},
        "prompt_buckets": [32],
        "response_len": 6,
        "eval_prompts": 6,
        "epochs": 2,
        "minibatches": 2,
        "divergence": {"kind": "reverse_kl"},
    }
    config = DistillOnlineConfig.model_validate(tiny.COMMON | options | changes)
    stage = DistillOnlineStage(config, tiny.context({str(teacher): teacher}))
    stage.build()
    return stage


@pytest.fixture(scope="module")
def run(tmp_path_factory, teacher):
    """A stage after its budget: evaluations before and after, states and reports by iteration."""
    stage = make(tmp_path_factory.mktemp("online"), teacher)
    frozen = export_arrays(stage.reference)
    before = stage.evaluate()
    states, metrics = {}, {}
    for index in range(1, 21):
        states[index - 1] = stage.state()
        metrics[index] = stage.step(index).metrics
        if index == 1:
            graphs = compile_count.snapshot().graphs
    return stage, frozen, before, stage.evaluate(), states, metrics, compile_count.snapshot().graphs - graphs


def test_the_student_nears_the_teacher(run):
    _, _, before, after, _, metrics, _ = run
    assert after["eval/kl_policy_ref"] < 0.5 * before["eval/kl_policy_ref"]
    assert after["eval/score"] > before["eval/score"]
    assert metrics[20]["train/loss"] < 0.5 * metrics[1]["train/loss"]
    assert {"eval/style", "eval/response_tokens", "eval/finished_ratio"} <= set(after)


def test_an_iteration_says_what_it_measured(run):
    first = run[5][1]
    assert first["train/sampler_mismatch"] < LOGP_MATCH_ATOL
    assert 0 <= first["train/truncated_ratio"] <= 1 and first["train/response_tokens"] <= 6
    np.testing.assert_allclose(
        first["train/answer_reverse_kl"],
        first["train/reverse_kl"] * first["train/response_tokens"],
        rtol=0,
        atol=F32_ATOL,
    )


def test_the_student_alone_moves_and_alone_is_kept(run):
    stage, frozen, _, _, states, _, _ = run
    assert all(np.array_equal(array, frozen[name]) for name, array in export_arrays(stage.reference).items())
    moved = [name for name, array in stage.state().params.items() if not np.array_equal(array, states[0].params[name])]
    assert moved and all(name.startswith("policy.") for name in stage.state().params)


def test_nothing_is_compiled_after_the_first_iteration_but_the_evaluation(run):
    # the evaluation before had compiled its own
    assert run[-1] == 0


def test_a_resumed_stage_goes_on_exactly(run, tmp_path, teacher):
    stage, _, _, _, states, metrics, _ = run
    end = stage.state()
    again = make(tmp_path, teacher)
    again.restore(states[17])
    assert [again.step(index).metrics for index in (18, 19, 20)] == [metrics[index] for index in (18, 19, 20)]
    assert tiny.same_state(again.state(), end)


def test_micro_batches_give_what_the_whole_minibatch_gives(tmp_path, teacher):
    options = {"divergence": {"kind": "forward_kl", "temperature": 2.0, "top_k": 10}, "epochs": 1, "minibatches": 1}
    weights = []
    for accumulate in (1, 2):
        stage = make(tmp_path, teacher, accumulate=accumulate, **options)
        stage.step(1)
        weights.append(export_arrays(stage.policy))
    assert all(np.allclose(a, weights[1][name], rtol=0, atol=EQUIVALENCE_ATOL) for name, a in weights[0].items())
