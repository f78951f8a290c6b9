from __future__ import annotations

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from llmstack.errors import UserError
from llmstack.integrations.mindformers import library
from llmstack.integrations.mindformers.checkpoints import checkpoint_weights, hf_to_mindformers, mindformers_to_hf
from llmstack.integrations.mindformers.network import build_gpt
from llmstack.integrations.mindformers.twin import stored_arrays
from llmstack.integrations.mindformers.weights import FusedLayout, to_mindformers
from llmstack.models.checkpoint_io import build_causal, load_weights, save_model
from llmstack.models.hf_config import read_config
from llmstack.models.weights import export_arrays, import_arrays
from tests.helpers.models import tiny_config, vary_norms

CONFIG = tiny_config(num_hidden_layers=2)


def network(model):
    """MindFormers' network with a model's weights, not inside any other Cell."""
    stored = stored_arrays(model)
    gpt = build_gpt(CONFIG, stored)
    import_arrays(gpt, to_mindformers(stored, CONFIG), source="test")
    return gpt


@pytest.fixture(scope="module")
def trained():
    """A model whose weights MindFormers has, and the same on our network."""
    model = build_causal(CONFIG, seed=4)
    vary_norms(model)
    return model, network(model)


@pytest.fixture(scope="module")
def saved(trained, tmp_path_factory):
    """What MindFormers' own checkpoint code writes at two steps, optimizer included."""
    folder = tmp_path_factory.mktemp("mindformers") / "checkpoint"
    folder.mkdir()
    with library.quietly():
        from mindformers.checkpoint.checkpoint import CommonInfo, save_checkpoint
        from mindformers.core.optim.adamw import AdamW
    _, gpt = trained
    optimizer = AdamW(list(gpt.trainable_params()))
    for iteration in (3, 12):
        save_checkpoint(
            iteration, gpt, optimizer, common_info=CommonInfo(), user_prefix="tiny", save_checkpoint_path=str(folder)
        )
    return folder


def same(folder, model):
    again = build_causal(read_config(folder), seed=0)
    load_weights(again, folder)
    wanted = export_arrays(model)
    assert export_arrays(again).keys() == wanted.keys()
    for name, array in export_arrays(again).items():
        np.testing.assert_array_equal(array, wanted[name])


def test_a_checkpoint_of_the_trainer_becomes_a_model_folder(saved, trained, tmp_path):
    iteration = saved / "iteration_00000012"
    assert len(list(iteration.glob("*.safetensors"))) == 2, "model and optimizer"
    (model_file,) = iteration.glob("*model*.safetensors")
    for number, source in enumerate((saved, iteration, model_file)):
        out = mindformers_to_hf(source, CONFIG, tmp_path / str(number), eos_ids=(3,), pad_id=0)
        same(out, trained[0])
    assert read_config(out) == CONFIG


def test_there_and_back_is_bitwise(trained, tmp_path):
    save_model(trained[0], tmp_path / "ours")
    for number, layout in enumerate((FusedLayout(), FusedLayout(True, False))):
        file = hf_to_mindformers(tmp_path / "ours", tmp_path / f"theirs{number}", layout=layout)
        out = mindformers_to_hf(file, CONFIG, tmp_path / f"again{number}", layout=layout)
        assert (out / "model.safetensors").read_bytes() == (tmp_path / "ours" / "model.safetensors").read_bytes()


def test_the_library_loads_what_was_written(trained, tmp_path):
    save_model(trained[0], tmp_path / "ours")
    hf_to_mindformers(tmp_path / "ours", tmp_path / "theirs")
    with library.quietly():
        from mindformers.checkpoint.checkpoint import load_checkpoint
    other = network(build_causal(CONFIG, seed=9))
    load_checkpoint(str(tmp_path / "theirs"), other)
    wanted = dict(trained[1].parameters_and_names())
    for name, parameter in other.parameters_and_names():
        np.testing.assert_array_equal(parameter.asnumpy(), wanted[name].asnumpy())


def test_nothing_is_written_over_what_is_read(trained, tmp_path):
    save_model(trained[0], tmp_path / "ours")
    before = (tmp_path / "ours" / "model.safetensors").read_bytes()
    file = hf_to_mindformers(tmp_path / "ours", tmp_path / "theirs")
    with pytest.raises(UserError, match="expected another folder than that of the weights, got .*ours"):
        hf_to_mindformers(tmp_path / "ours", tmp_path / "ours")
    for source in (file, file.parent):
        with pytest.raises(UserError, match="expected another folder than that of the weights, got .*theirs"):
            mindformers_to_hf(source, CONFIG, tmp_path / "theirs")
    assert (tmp_path / "ours" / "model.safetensors").read_bytes() == before


def edited(saved, tmp_path, change):
    """The newest checkpoint's file with something done to its tensors."""
    (model_file,) = (saved / "iteration_00000012").glob("*model*.safetensors")
    arrays = load_file(model_file)
    change(arrays)
    path = tmp_path / "llama_rank_0-12_1.safetensors"
    save_file(arrays, path)
    return path


def test_names_may_have_something_before_them_and_state_between_them(saved, trained, tmp_path):
    """The older form: one file with weights, moments and counters."""

    def change(arrays):
        for name in [*arrays]:
            arrays[f"model.{name}"] = arrays.pop(name)
            arrays[f"adam_m.model.{name}"] = np.zeros(1, np.float32)
        arrays |= {"global_step": np.zeros(1, np.float32), "scale_sense": np.ones((), np.float32)}

    same(mindformers_to_hf(edited(saved, tmp_path, change), CONFIG, tmp_path / "out"), trained[0])


def pop_norm(arrays):
    arrays.pop("decoder.layers.1.pre_mlp_layernorm.weight")


def pop_embedding(arrays):
    arrays.pop("embedding.word_embeddings.weight")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pop_norm, "got missing: decoder.layers.1.pre_mlp_layernorm.weight"),
        (pop_embedding, "expected one tensor embedding.word_embeddings.weight, got none"),
        (
            lambda arrays: arrays.update({"decoder.layers.0.mlp.router.weight": np.zeros(2, np.float32)}),
            "expected weights of a Llama-like mcore network, got decoder.layers.0.mlp.router.weight",
        ),
        (
            lambda arrays: arrays.update({"decoder.final_layernorm.weight": np.zeros(3, np.float32)}),
            r"wrong shape: decoder.final_layernorm.weight \(3,\) instead of \(20,\)",
        ),
    ],
)
def test_what_is_not_exactly_the_model_is_refused(saved, tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        mindformers_to_hf(edited(saved, tmp_path, change), CONFIG, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_weight_beside_the_network_is_refused(saved, tmp_path):
    def change(arrays):
        for name in [*arrays]:
            arrays[f"model.{name}"] = arrays.pop(name)
        arrays["decoder.final_layernorm.weight"] = np.zeros(20, np.float32)

    with pytest.raises(UserError, match="got decoder.final_layernorm.weight. Only dense"):
        checkpoint_weights(edited(saved, tmp_path, change))


def test_a_checkpoint_cut_over_cards_is_refused(saved, tmp_path):
    (model_file,) = (saved / "iteration_00000012").glob("*model*.safetensors")
    for card in range(2):
        shutil.copy(model_file, tmp_path / f"tiny-model-{card:07d}-0000002.safetensors")
    with pytest.raises(UserError, match="it was cut over several cards. Merge it with `mindspore.unified_safetensors`"):
        checkpoint_weights(tmp_path)


def test_a_folder_of_several_steps_and_an_empty_one_are_refused(saved, tmp_path):
    with pytest.raises(UserError, match="expected a checkpoint of MindFormers in safetensors, got none"):
        checkpoint_weights(tmp_path)
    (model_file,) = (saved / "iteration_00000012").glob("*model*.safetensors")
    for step in (1, 2):
        shutil.copy(model_file, tmp_path / f"tiny_rank_0-{step}_1.safetensors")
    with pytest.raises(UserError, match="expected one checkpoint, got 2.*Name one of the files"):
        checkpoint_weights(tmp_path)


@pytest.fixture
def run(saved, tmp_path):
    """The folder of an exported run after two steps: what it started from, and a file a step."""
    (model_file,) = (saved / "iteration_00000012").glob("*model*.safetensors")
    folder = tmp_path / "run"
    card = folder / "output" / "checkpoint" / "rank_0"
    card.mkdir(parents=True)
    for step in (1, 2):
        shutil.copy(model_file, card / f"llmstack_rank_0-1_{step}.safetensors")
    (card / "meta.json").write_text('{"last_ckpt_file": "llmstack_rank_0-1_2.safetensors"}')
    (folder / "run.yaml").write_text("")
    shutil.copy(model_file, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("place", [".", "output", "output/checkpoint", "output/checkpoint/rank_0"])
def test_the_newest_of_a_run_is_found_from_any_of_its_folders(run, place):
    found = checkpoint_weights(run / place)
    assert {tensor.path.name for tensor in found.values()} == {"llmstack_rank_0-1_2.safetensors"}


def test_a_run_that_was_not_trained_is_not_taken_for_its_start(run):
    shutil.rmtree(run / "output")
    with pytest.raises(UserError, match="expected a run that has been trained, got one without output/checkpoint"):
        checkpoint_weights(run)


def test_a_run_of_several_cards_is_refused(run):
    shutil.copytree(run / "output/checkpoint/rank_0", run / "output/checkpoint/rank_1")
    with pytest.raises(UserError, match="expected the checkpoint of one card, got rank_0, rank_1"):
        checkpoint_weights(run)


def test_a_note_of_a_file_that_is_gone_is_refused(run):
    (run / "output/checkpoint/rank_0/llmstack_rank_0-1_2.safetensors").unlink()
    with pytest.raises(UserError, match="last_ckpt_file: expected a file beside it, got 'llmstack_rank_0-1_2.safetens"):
        checkpoint_weights(run)
