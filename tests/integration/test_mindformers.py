"""The whole chain on MindFormers' network gives the numbers of the chain on ours, and resumes exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmstack.config.stages import SftConfig
from llmstack.stages.sft import SftStage
from tests.helpers import stages as tiny
from tests.integration.tiny_run import STAGES, metrics, summary, train
from tests.tolerances import LOGP_MATCH_ATOL, OTHER_NETWORK_ATOL

SHORT = [f"stages.{name}.budget={'2' if name == 'policy' else '4'} steps" for name in STAGES]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run on each network."""
    folders = {}
    for provider in ("native", "mindformers"):
        folders[provider] = tmp_path_factory.mktemp(provider) / "run"
        done = train(folders[provider], f"model.provider={provider}", *SHORT)
        assert done.returncode == 0, done.stderr
        assert "INFO" not in done.stdout and "WARNING" not in done.stdout
    return folders


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_logs_the_same(runs, stage):
    ours, theirs = (metrics(runs[provider], stage) for provider in ("native", "mindformers"))
    assert len(ours) == len(theirs) > 0
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert other[key] == pytest.approx(value, rel=1e-3, abs=OTHER_NETWORK_ATOL), (stage, key)


def test_what_samples_is_what_learns(runs):
    logged = [line for line in metrics(runs["mindformers"], "policy") if "train/sampler_mismatch" in line]
    assert logged and all(line["train/sampler_mismatch"] < LOGP_MATCH_ATOL for line in logged)


def test_graphs_stay_few(runs):
    ours, theirs = (summary(runs[provider])["stages"] for provider in ("native", "mindformers"))
    for stage in STAGES:
        assert theirs[stage]["graphs"] <= ours[stage]["graphs"] + 1, "one more: the copy of the weights"


def sft(folder):
    rows = tiny.write_jsonl(folder / "rows.jsonl", [{"prompt": word, "response": word} for word in tiny.WORDS])
    source = {"source": "jsonl", "record": "prompt_response", "path": rows}
    samples = {"prompts": 2, "max_new_tokens": 4, "temperature": 0.0}
    options = {"kind": "sft", "seq_len": 32, "eval_batches": 1, "samples": samples, "data": source, "eval_data": source}
    context = tiny.context()
    context = replace(context, model=context.model.model_copy(update={"provider": "mindformers"}))
    stage = SftStage(SftConfig.model_validate(options | tiny.COMMON), context)
    stage.build()
    return stage


def test_a_stage_goes_on_exactly_from_its_state(tmp_path):
    straight, resumed = sft(tmp_path), sft(tmp_path)
    for index in (1, 2):
        straight.step(index)
    resumed.restore(straight.state())
    evaluations = []
    for stage in (straight, resumed):
        stage.step(3)
        evaluations.append((stage.evaluate(), stage.samples()))
    assert evaluations[0] == evaluations[1]
    assert tiny.same_state(straight.state(), resumed.state())
    assert np.isfinite(evaluations[0][0]["eval/loss"])
