from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.stages import RewardConfig
from llmstack.errors import UserError
from llmstack.models.weights import export_arrays
from llmstack.stages.base import Stage
from tests.helpers import stages as tiny


def stage(inputs=None):
    return tiny.bare(Stage)(RewardConfig.model_construct(batch_rows=2, seq_len=16, lora=None), tiny.context(inputs))


def test_generators_belong_to_a_stage_and_a_purpose():
    context = tiny.context()
    first = context.generator("rollout", 1).random(4)
    assert (context.generator("rollout", 1).random(4) == first).all()
    assert (context.generator("rollout", 2).random(4) != first).all()
    assert (tiny.context(name="other").generator("rollout", 1).random(4) != first).all()
    assert context.derived_seed("order") == context.derived_seed("order")


def test_a_model_comes_from_its_folder(tmp_path):
    folder = tiny.causal_folder(tmp_path / "lm", seed=5)
    loaded = export_arrays(stage({"lm": folder}).language_model("lm", "model"))
    again = export_arrays(stage({"lm": folder}).language_model("lm", "model"))
    fresh = export_arrays(stage().language_model(None, "model"))
    assert all(np.array_equal(loaded[name], again[name]) for name in loaded)
    assert any(not np.array_equal(loaded[name], fresh[name]) for name in loaded)


def test_a_scalar_model_takes_the_trunk_of_a_language_model_or_all_of_a_scalar_one(tmp_path):
    lm, rm = tiny.causal_folder(tmp_path / "lm", seed=5), tiny.scalar_folder(tmp_path / "rm", seed=6)
    made = stage({"lm": lm, "rm": rm})
    trunk = export_arrays(made.language_model("lm", "x"))
    scalar = export_arrays(made.scalar_model("lm", "critic"))
    assert np.array_equal(scalar["trunk.embedding"], trunk["trunk.embedding"])
    assert np.array_equal(
        export_arrays(made.scalar_model("rm", "critic"))["score.weight"],
        export_arrays(made.scalar_model("rm", "other"))["score.weight"],
    )


def test_rows_longer_than_the_models_context_are_refused(tmp_path):
    made = stage({"lm": tiny.causal_folder(tmp_path / "lm")})
    made.config = RewardConfig.model_construct(batch_rows=2, seq_len=65)
    with pytest.raises(UserError, match=r"stages.stage: expected rows of at most 64 tokens .* got 65"):
        made.language_model("lm", "model")


def test_a_vocabulary_smaller_than_the_tokenizers_is_refused(tmp_path):
    from llmstack.models.checkpoint_io import build_causal, save_model

    small = tmp_path / "small"
    small.mkdir()
    save_model(build_causal(tiny.model_config(vocab_size=100), seed=0), small)
    with pytest.raises(UserError, match="stages.stage: expected a model with a vocabulary of at least"):
        stage({"small": small}).language_model("small", "model")


def test_a_stage_that_leaves_a_hook_out_is_told_which():
    class Half(Stage):
        def step(self, index):
            return None

    with pytest.raises(TypeError, match="build_loader"):
        Half(RewardConfig.model_construct(), tiny.context())
