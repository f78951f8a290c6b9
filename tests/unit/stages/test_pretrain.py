from __future__ import annotations

import pytest

from llmstack.config.stages import PretrainConfig
from llmstack.stages.pretrain import PretrainStage
from tests.helpers import stages as tiny

SAMPLES = {"prompts": 2, "max_new_tokens": 4, "temperature": 0.0}


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrain")
    path = tiny.write_jsonl(
        folder / "texts.jsonl", [{"text": " ".join([text, *tiny.WORDS] * 2)} for text in tiny.colours(40)]
    )
    source = {"source": "jsonl", "record": "text", "path": path}
    options = {"seq_len": 32, "eval_batches": 2, "samples": SAMPLES, "accumulate": 2, "z_loss": 1e-4}
    config = PretrainConfig.model_validate(
        {"kind": "pretrain", "data": source, "eval_data": source} | tiny.COMMON | options
    )
    built = PretrainStage(config, tiny.context())
    built.build()
    return built


def test_perplexity_starts_at_the_vocabulary_and_falls(stage):
    before = stage.evaluate()
    assert before["eval/perplexity"] == pytest.approx(tiny.tokenizer().vocab_size, rel=0.2)
    for index in range(1, 31):
        report = stage.step(index)
    assert report.tokens > 0 and report.gauges["train/lr"] == pytest.approx(1e-2)
    assert stage.evaluate()["eval/perplexity"] < before["eval/perplexity"] / 4


def test_samples_continue_the_beginnings_of_documents(stage):
    stage.evaluate()
    assert len(stage.samples()) == 2
    assert all(set(sample) == {"prompt", "response", "finished"} for sample in stage.samples())


def test_a_restored_stage_goes_on_bitwise(stage):
    saved = stage.state()
    straight = [stage.step(index).metrics for index in (31, 32)]
    ended = stage.state()
    stage.restore(saved)
    assert [stage.step(index).metrics for index in (31, 32)] == straight
    assert tiny.same_state(ended, stage.state())


def test_the_budget_counts_optimizer_steps(stage):
    assert stage.total_steps == 20
