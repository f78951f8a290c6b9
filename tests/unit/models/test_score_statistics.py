from __future__ import annotations

import json

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.models.checkpoint_io import save_model
from llmstack.models.hf_config import read_config
from llmstack.models.model_source import folder_source
from llmstack.models.score_statistics import KEY, ScoreStatistics, measure, read_statistics, write_statistics
from tests.helpers import stages as tiny
from tests.tolerances import F32_ATOL


@pytest.fixture
def folder(tmp_path):
    return tiny.scalar_folder(tmp_path / "rm")


def test_measured_by_hand():
    found = measure(np.array([1.0, 3.0], np.float32))
    assert found == ScoreStatistics(mean=2.0, std=1.0, answers=2)
    np.testing.assert_allclose(found.normalise(np.array([3.0, 2.0, 0.0])), [1.0, 0.0, -2.0], rtol=0, atol=F32_ATOL)


def test_they_stay_with_the_model(folder):
    write_statistics(folder, ScoreStatistics(0.5, 2.0, 7))
    assert read_statistics(folder, where="x") == ScoreStatistics(0.5, 2.0, 7)
    assert read_config(folder) == tiny.model_config()
    assert folder_source(folder).config_json("float32")[KEY] == {"mean": 0.5, "std": 2.0, "answers": 7}


def test_a_language_model_carries_none_along(tmp_path):
    folder = tiny.causal_folder(tmp_path / "lm")
    write_statistics(folder, ScoreStatistics(0.5, 2.0, 7))
    assert KEY not in folder_source(folder).config_json("float32")


def test_a_model_that_is_trained_on_starts_without(folder):
    write_statistics(folder, ScoreStatistics(0.5, 2.0, 7))
    from llmstack.models.checkpoint_io import build_scalar

    save_model(build_scalar(tiny.model_config(), seed=0), folder)
    with pytest.raises(UserError, match="without `score_statistics`"):
        read_statistics(folder, where="x")


@pytest.mark.parametrize("value", [None, 1, {"mean": 1.0}, {"mean": "a", "std": 1.0}, {"mean": True, "std": 1.0}])
def test_none_to_be_read(folder, value):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {KEY: value}), encoding="utf-8")
    with pytest.raises(UserError, match="stages.p.reward.normalise: expected a model with the mean and deviation"):
        read_statistics(folder, where="stages.p.reward.normalise")


def test_scores_that_do_not_differ(folder):
    write_statistics(folder, ScoreStatistics(0.5, 0.0, 7))
    with pytest.raises(UserError, match="expected scores that differ, got a deviation of 0"):
        read_statistics(folder, where="x")
