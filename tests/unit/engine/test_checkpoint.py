"""Checkpoints: exact round trips, whole or absent after a kill at any write, retention that keeps a good one."""

from __future__ import annotations

import json
import logging
import os
import shutil

import numpy as np
import pytest

from llmstack.engine import atomic, checkpoint
from llmstack.engine.checkpoint import find_fault, load_newest, retain, save_checkpoint
from llmstack.engine.protocol import StageState
from llmstack.errors import RunFolderError


def state(seed):
    random = np.random.default_rng(seed)
    weights = random.normal(size=(3, 4)).astype(np.float32)
    return StageState(
        {"turned": weights.T, "sliced": weights[:, ::2], "scalar": np.float32(seed) + np.zeros((), np.float32)},
        {"m": random.normal(size=5), "step": np.array(seed, np.int32)},
        {"cursor": seed, "beta": 0.1 + 0.2, "big": 2**70, "names": ["a", None, True]},
    )


def assert_equal(restored, wanted):
    for ours, theirs in ((restored.params, wanted.params), (restored.optimizer, wanted.optimizer)):
        assert ours.keys() == theirs.keys()
        for name, array in theirs.items():
            assert ours[name].dtype == array.dtype and ours[name].shape == array.shape
            np.testing.assert_array_equal(ours[name], array)
    assert restored.trainer == wanted.trainer


def flip_byte(path, position=-1):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))


def test_round_trip_is_exact(tmp_path):
    save_checkpoint(tmp_path / "checkpoints", 100, state(1))
    restored = load_newest(tmp_path / "checkpoints")
    assert restored.step == 100
    assert_equal(restored.state, state(1))


def test_files_and_hashes(tmp_path):
    folder = save_checkpoint(tmp_path, 7, state(1))
    assert folder.name == "step_00000007"
    wanted = {"model.safetensors", "optimizer.safetensors", "trainer.json", "manifest.json", "COMPLETE"}
    assert {path.name for path in folder.iterdir()} == wanted
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["step"] == 7
    assert manifest["sha256"] == {
        name: checkpoint.sha256_of(folder / name)
        for name in ("model.safetensors", "optimizer.safetensors", "trainer.json")
    }


def test_nothing_to_load(tmp_path):
    assert load_newest(tmp_path / "missing") is None
    (tmp_path / "step_notes").mkdir()
    assert load_newest(tmp_path) is None


def test_stage_without_optimizer_state(tmp_path):
    save_checkpoint(tmp_path, 1, StageState({"w": np.ones(1)}, {}, {}))
    assert load_newest(tmp_path).state.optimizer == {}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda f: flip_byte(f / "model.safetensors"), "model.safetensors has changed"),
        (lambda f: flip_byte(f / "optimizer.safetensors", 20), "optimizer.safetensors has changed"),
        (lambda f: flip_byte(f / "trainer.json", 3), "trainer.json has changed"),
        (lambda f: flip_byte(f / "manifest.json", 30), "manifest.json has changed"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "model.safetensors has changed"),
        (lambda f: (f / "trainer.json").unlink(), "cannot be read"),
        (lambda f: (f / "COMPLETE").unlink(), "not finished"),
    ],
)
def test_damaged_checkpoint_is_passed_over_and_said(tmp_path, caplog, damage, reason):
    save_checkpoint(tmp_path, 10, state(1))
    damage(save_checkpoint(tmp_path, 20, state(2)))
    with caplog.at_level(logging.WARNING, "llmstack"):
        restored = load_newest(tmp_path)
    assert restored.step == 10
    assert_equal(restored.state, state(1))
    assert "step_00000020 passed over" in caplog.text and reason in caplog.text


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def save_killed_at(monkeypatch, folder, step, call):
    """Saves, and dies at the given system call (fsync or rename, counted together); False when it finished before."""
    calls = iter(range(10**6))

    def dying(function):
        def wrapped(*args, **kwargs):
            if next(calls) == call:
                raise Killed
            return function(*args, **kwargs)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "fsync", dying(os.fsync))
        patch.setattr(atomic.os, "rename", dying(os.rename))
        patch.setattr(atomic.os, "replace", dying(os.replace))
        patch.setattr(atomic.shutil, "rmtree", dying(shutil.rmtree))
        try:
            save_checkpoint(folder, step, state(step))
        except Killed:
            return True
    return False


def test_kill_at_every_write_leaves_the_last_whole_checkpoint(tmp_path, monkeypatch):
    outcomes = []
    for call in range(100):
        folder = tmp_path / str(call)
        save_checkpoint(folder, 10, state(10))
        if not save_killed_at(monkeypatch, folder, 20, call):
            break
        restored = load_newest(folder)
        assert_equal(restored.state, state(restored.step))
        outcomes.append(restored.step)
        assert not list(folder.glob(".*"))
        save_checkpoint(folder, 20, state(20))
        assert load_newest(folder).step == 20
    assert outcomes == sorted(outcomes) and outcomes[0] == 10 and len(outcomes) > 8


def test_kill_while_a_checkpoint_is_written_again_never_loads_half_of_it(tmp_path, monkeypatch):
    for call in range(100):
        folder = tmp_path / str(call)
        save_checkpoint(folder, 20, state(20))
        if not save_killed_at(monkeypatch, folder, 20, call):
            break
        restored = load_newest(folder)
        # after the rename and before the mark there is only the new one without a mark, which is not loaded
        if restored is not None:
            assert_equal(restored.state, state(20))
    assert call > 8


def test_full_disk_is_an_error_for_the_user(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    save_checkpoint(tmp_path, 1, state(1))
    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(RunFolderError, match="expected room for a checkpoint, got .*No space left on device"):
        save_checkpoint(tmp_path, 2, state(2))
    assert load_newest(tmp_path).step == 1


def test_retention_keeps_the_newest(tmp_path):
    for step in (1, 2, 3, 4):
        save_checkpoint(tmp_path, step, state(step))
    retain(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000003", "step_00000004"]


def test_retention_never_counts_a_damaged_newest_one(tmp_path):
    for step in (1, 2, 3):
        folder = save_checkpoint(tmp_path, step, state(step))
    flip_byte(folder / "model.safetensors")
    retain(tmp_path, 1)
    assert load_newest(tmp_path).step == 2


def test_retention_removes_what_was_never_finished(tmp_path):
    (save_checkpoint(tmp_path, 1, state(1)) / "COMPLETE").unlink()
    save_checkpoint(tmp_path, 2, state(2))
    save_checkpoint(tmp_path, 3, state(3))
    retain(tmp_path, 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000002", "step_00000003"]


def test_damaged_one_moves_aside_so_that_retention_keeps_two_good_ones(tmp_path):
    save_checkpoint(tmp_path, 1, state(1))
    flip_byte(save_checkpoint(tmp_path, 2, state(2)) / "model.safetensors")
    load_newest(tmp_path)
    save_checkpoint(tmp_path, 3, state(3))
    retain(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "damaged_step_00000002",
        "step_00000001",
        "step_00000003",
    ]
    assert all(find_fault(path) == "" for path in tmp_path.glob("step_*"))
