from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from llmstack.config.load import load_recipe
from llmstack.data.recipe_tokenizer import build_tokenizer
from llmstack.errors import UserError
from llmstack.registry import MODELS, OPTIMIZERS, STAGES
from llmstack.stages.base import StageContext
from llmstack.stages.chain import sized_model
from llmstack.stages.mindformers_export import write_mindformers_run
from llmstack.stages.pretrain import PretrainStage
from tests.integration.tiny_run import environment, overrides
from tests.tolerances import OTHER_NETWORK_ATOL

SHORT = (
    "stages.base.budget=3 steps",
    "stages.base.accumulate=2",
    "stages.base.batch_rows=2",
    "stages.base.seq_len=64",
    "model.tie_word_embeddings=false",
    "optim.schedule.warmup=2 steps",
)
LORA = "{rank: 4, alpha: 8.0, dropout: 0.0, target_modules: [all-linear]}"


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "run"


@pytest.fixture(scope="module")
def recipe(run_dir):
    return load_recipe("quickstart", [*overrides(run_dir), *SHORT])


@pytest.fixture(scope="module")
def exported(recipe, tmp_path_factory):
    return write_mindformers_run(recipe, "base", tmp_path_factory.mktemp("out") / "base")


def our_losses(recipe):
    config = recipe.config
    tokenizer = build_tokenizer(config.tokenizer, seed=config.seed)
    context = StageContext("base", config.seed, sized_model(config.model, tokenizer), tokenizer, {})
    stage = PretrainStage(config.stages["base"], context)
    stage.build()
    return [stage.step(index).metrics["train/loss"] for index in (1, 2, 3)]


def test_the_trainer_has_our_loss_at_every_step(recipe, exported, tmp_path):
    """Two micro-batches of a step are one batch there; loss, clip, rates and AdamW have to agree for three steps."""
    done = subprocess.run(
        [sys.executable, str(exported / "train.py")],
        cwd=tmp_path,
        env=environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = [float(loss) for loss in re.findall(r"loss:\[([\d.]+)/", done.stdout)]
    np.testing.assert_allclose(theirs, our_losses(recipe), atol=OTHER_NETWORK_ATOL)
    assert list(tmp_path.iterdir()) == []
    assert len(list((exported / "output" / "checkpoint" / "rank_0").glob("*.safetensors"))) == 1


def test_each_step_takes_the_rows_of_its_micro_batches(recipe, exported):
    with np.load(exported / "rows.npz") as stored:
        assert stored["steps"].shape == (3, 4)
        assert stored["tokens"].shape[1] == 64
        np.testing.assert_allclose(stored["shares"][:2], [0.5, 1.0])


@pytest.mark.parametrize(
    ("stage", "more", "message"),
    [
        ("nothing", (), "--stage: expected one of base, sft, rm, policy, got 'nothing'"),
        ("rm", (), r"trains on packed rows \(pretrain or sft\), got 'rm' \(reward\)"),
        ("policy", (), r"got 'policy' \(ppo\): MindFormers has no trainer for it"),
        ("base", ("+stages.base.z_loss=0.1",), "stages.base.z_loss: expected 0, because MindFormers' loss has no such"),
        ("sft", (f"+stages.sft.lora={LORA}",), "stages.sft.lora: expected null, because MindFormers' trainer knows"),
        ("sft", (), "expected the finished stage 'base', got no model at .*base/final. Run `llmstack train"),
    ],
)
def test_what_the_trainer_cannot_do_is_refused(run_dir, tmp_path, stage, more, message):
    loaded = load_recipe("quickstart", [*overrides(run_dir), *SHORT, *more])
    with pytest.raises(UserError, match=message):
        write_mindformers_run(loaded, stage, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_refused(recipe, exported):
    with pytest.raises(UserError, match="--out: expected a new or empty folder"):
        write_mindformers_run(recipe, "base", exported)


PLUGIN = """
from llmstack.config.stages import PretrainConfig
from llmstack.models.families import LLAMA
from llmstack.registry import MODELS, OPTIMIZERS, STAGES
from llmstack.stages.pretrain import PretrainStage

OPTIMIZERS.register("sgd", summary="plain")(object)
MODELS.register("own_llama", summary="the same")(LLAMA)


@STAGES.register("own_steps", config=PretrainConfig)
class OwnSteps(PretrainStage):
    '''Takes steps of its own.'''

    kind = "own_steps"

    def step(self, index):
        return super().step(index)
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "mindformers_export_plugin.py").write_text(PLUGIN, encoding="utf-8")
    sys.path.insert(0, str(folder))
    yield "plugins=[mindformers_export_plugin]"
    sys.path.remove(str(folder))
    for registry, name in ((OPTIMIZERS, "sgd"), (MODELS, "own_llama"), (STAGES, "own_steps")):
        del registry._entries[name]  # other tests list the names there are


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("stages.base.kind=own_steps", r"got 'base' \(own_steps\), whose steps or loss are its own"),
        ("optim.name=sgd", "stages.base.optim.name: expected one of adamw, mindformers:AdamW.*got 'sgd'"),
        ("model.family=own_llama", "model.family: expected one of llmstack's own, got 'own_llama' of a plugin"),
    ],
)
def test_parts_of_plugins_are_refused(run_dir, tmp_path, plugin, more, message):
    loaded = load_recipe("quickstart", [*overrides(run_dir), *SHORT, plugin, more])
    with pytest.raises(UserError, match=message):
        write_mindformers_run(loaded, "base", tmp_path / "out")
