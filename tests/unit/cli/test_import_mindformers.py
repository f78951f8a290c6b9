from __future__ import annotations

import pytest

from llmstack.cli.main import main
from llmstack.data.tokenizer import Tokenizer
from llmstack.integrations.mindformers.checkpoints import hf_to_mindformers
from llmstack.integrations.mindformers.weights import FusedLayout
from tests.helpers import stages as tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tiny.causal_folder(tmp_path_factory.mktemp("like") / "model", seed=3)
    tiny.tokenizer().save(folder)
    return folder


@pytest.mark.parametrize(
    ("layout", "options"),
    [(FusedLayout(), []), (FusedLayout(True, False), ["--contiguous-attention", "--contiguous-mlp"])],
)
def test_a_checkpoint_becomes_a_folder_with_tokenizer(model, tmp_path, capsys, layout, options):
    file = hf_to_mindformers(model, tmp_path / "theirs", layout=layout)
    out = tmp_path / "out"
    assert main(["import-mindformers", str(file), "--like", str(model), "--out", str(out), *options]) == 0
    assert str(out) in capsys.readouterr().out
    assert (out / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert Tokenizer.load(out).vocab_size == tiny.tokenizer().vocab_size


def test_the_wrong_layout_gives_other_weights(model, tmp_path):
    """Nothing in a file says its layout: the options matter."""
    file = hf_to_mindformers(model, tmp_path / "theirs")
    out = tmp_path / "out"
    assert main(["import-mindformers", str(file), "--like", str(model), "--out", str(out), "--contiguous-mlp"]) == 0
    assert (out / "model.safetensors").read_bytes() != (model / "model.safetensors").read_bytes()


def test_what_is_there_is_not_written_over(model, capsys):
    assert main(["import-mindformers", "x", "--like", str(model), "--out", str(model)]) == 2
    assert "expected a new or empty folder" in capsys.readouterr().err


def test_a_missing_checkpoint_is_the_users_mistake(model, tmp_path, capsys):
    words = ["import-mindformers", str(tmp_path / "none"), "--like", str(model), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "expected a checkpoint of MindFormers in safetensors, got none" in capsys.readouterr().err
