"""What makes a stage run again and what does not."""

from __future__ import annotations

import sys

import pytest

from llmstack.engine.fingerprint import StageIdentity, code_version, differences, hash_files
from llmstack.engine.loop import fit

CONFIG = {"kind": "ppo", "kl": {"beta": 0.1}, "log_every": "10 steps", "seed": 1}


def identity(**changes):
    return StageIdentity({**CONFIG, **changes}, {"sft": "abc"}, {"llmstack": "1"})


def test_order_of_keys_does_not_count():
    backwards = StageIdentity(dict(reversed(CONFIG.items())), {"sft": "abc"}, {"llmstack": "1"})
    assert backwards.fingerprint() == identity().fingerprint()


@pytest.mark.parametrize("key", ["log_every", "eval_every", "save_every", "keep_checkpoints", "max_skipped_steps"])
def test_observing_changes_nothing(key):
    assert identity(**{key: "1 steps"}).fingerprint() == identity().fingerprint()


@pytest.mark.parametrize("change", [{"kl": {"beta": 0.2}}, {"seed": 2}, {"new": None}])
def test_config_counts(change):
    assert identity(**change).fingerprint() != identity().fingerprint()


def test_inputs_and_code_count():
    assert StageIdentity(CONFIG, {"sft": "abd"}, {"llmstack": "1"}).fingerprint() != identity().fingerprint()
    assert StageIdentity(CONFIG, {"sft": "abc"}, {"llmstack": "2"}).fingerprint() != identity().fingerprint()


def test_differences_name_the_dotted_path():
    before, after = identity().to_json(), identity(kl={"beta": 0.2}, extra="x" * 50).to_json()
    assert differences(before, after) == [
        "config.extra: null -> " + '"' + "x" * 36 + "...",
        "config.kl.beta: 0.1 -> 0.2",
    ]
    assert differences(before, before) == []


def test_hash_of_a_folder_sees_names_and_contents(tmp_path):
    def make(name, files):
        for relative, content in files.items():
            path = tmp_path / name / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return hash_files(tmp_path / name)

    first = make("a", {"x": "1", "sub/y": "2"})
    assert make("b", {"sub/y": "2", "x": "1"}) == first
    assert make("c", {"x": "1", "sub/z": "2"}) != first
    assert make("d", {"x": "1", "sub/y": "3"}) != first
    assert (
        hash_files(tmp_path / "a" / "x") == hash_files(tmp_path / "b" / "x") != hash_files(tmp_path / "a" / "sub" / "y")
    )


def test_plugin_code_counts_with_its_source(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_plugin.py").write_text("def reward(batch):\n    return 1\n")
    import my_plugin

    first = code_version(my_plugin.reward, fit, len)
    assert set(first) == {"llmstack", "my_plugin"}
    (tmp_path / "my_plugin.py").write_text("def reward(batch):\n    return 2\n")
    assert code_version(my_plugin.reward)["my_plugin"] != first["my_plugin"]
    sys.modules.pop("my_plugin")
