from __future__ import annotations

import pytest

from llmstack.config.stages import RewardConfig
from llmstack.models.score_statistics import read_statistics
from llmstack.models.tensor_files import stored_tensors
from llmstack.stages import reward
from llmstack.stages.objectives import PairObjective
from llmstack.stages.reward import RewardStage
from tests.helpers import stages as tiny
from tests.tolerances import F32_ATOL


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reward")
    # red is the better answer, whatever was asked
    pairs = [
        {"prompt": question, "chosen": "red", "rejected": other}
        for question in tiny.WORDS
        for other in tiny.WORDS
        if other != "red"
    ]
    path = tiny.write_jsonl(folder / "pairs.jsonl", pairs)
    source = {"source": "jsonl", "record": "preference", "path": path}
    options = tiny.COMMON | {"batch_rows": 10, "seq_len": 48, "centering": 0.01, "eval_batches": 2}
    config = RewardConfig.model_validate(
        {"kind": "reward", "init_from": "lm", "data": source, "eval_data": source} | options
    )
    model = tiny.causal_folder(folder / "lm")
    built = RewardStage(config, tiny.context({"lm": model}))
    built.build()
    return built


def test_a_reward_model_learns_its_pairs(stage):
    before = stage.evaluate()
    params = {name: array.copy() for name, array in stage.state().params.items()}
    for index in range(1, 41):
        report = stage.step(index)
        assert not report.skipped
    assert set(report.shown) == {"train/loss", "train/accuracy"} and set(report.shown) <= set(report.metrics)
    after = stage.evaluate()
    assert after["eval/accuracy"] > 0.9
    assert after["eval/margin"] > 0 and after["eval/loss"] < before["eval/loss"]
    still = [name for name, array in stage.state().params.items() if (array == params[name]).all()]
    assert still == []


def test_evaluation_reports_calibration_and_lengths(stage):
    found = stage.evaluate()
    by_length = ("chosen_longer", "chosen_shorter", "similar_length")
    assert {f"eval/{what}_{name}" for name in by_length for what in ("accuracy", "pairs")} <= set(found)
    # "red" against longer words: none has fewer letters; two batches of ten are all twenty pairs
    assert found["eval/pairs_chosen_longer"] == 0.0
    assert sum(found[f"eval/pairs_{name}"] for name in by_length) == 20
    assert 0.0 <= found["eval/calibration_error"] <= 1.0 and -1.0 <= found["eval/length_correlation"] <= 1.0
    lengths = [[len(tiny.tokenizer().encode(word)) + 1 for word in ("red", other)] for other in tiny.WORDS[1:]]
    assert stage.eval_lengths.tolist() == lengths * 5


def test_evaluation_changes_nothing(stage):
    before = stage.state()
    first, second = stage.evaluate(), stage.evaluate()
    assert first == second
    assert tiny.same_state(before, stage.state())


def test_a_restored_stage_goes_on_bitwise(stage):
    saved = stage.state()
    straight = [stage.step(index).metrics for index in (41, 42)]
    ended = stage.state()
    stage.restore(saved)
    assert [stage.step(index).metrics for index in (41, 42)] == straight
    assert tiny.same_state(ended, stage.state())


def test_the_final_folder_loads_as_a_reward_model(stage, tmp_path):
    from llmstack.models.hf_config import folder_kind

    stage.save_final(tmp_path)
    assert folder_kind(tmp_path) == "scalar"
    assert (tmp_path / "tokenizer.json").is_file()


def test_the_final_folder_has_the_statistics_of_its_scores(stage, tmp_path):
    found = stage.evaluate()
    stage.save_final(tmp_path)
    kept = read_statistics(tmp_path, where="reward.normalise")
    assert kept.answers == 40
    assert kept.mean == pytest.approx((found["eval/score_chosen"] + found["eval/score_rejected"]) / 2, abs=F32_ATOL)
    scores = kept.normalise(stage._scored_pairs().all_scores)
    assert (scores.mean(), scores.std()) == pytest.approx((0.0, 1.0), abs=F32_ATOL)


def test_the_options_of_the_loss_arrive_in_it(stage, monkeypatch):
    made = {}

    def objective(model, **options):
        made.update(options)
        return PairObjective(model, **options)

    monkeypatch.setattr(reward, "PairObjective", objective)
    monkeypatch.setattr(stage, "config", stage.config.model_copy(update={"label_smoothing": 0.1}))
    monkeypatch.setattr(stage, "learner", stage.learner)  # put back afterwards, as the scorer is
    monkeypatch.setattr(stage, "scorer", stage.scorer)
    stage.build_loss()
    assert made == {"centering": 0.01, "label_smoothing": 0.1}


def test_the_final_weights_are_stored_as_asked(stage, tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "config", stage.config.model_copy(update={"final_dtype": "bfloat16"}))
    stage.save_final(tmp_path)
    assert {tensor.dtype for tensor in stored_tensors(tmp_path).values()} == {"BF16"}
