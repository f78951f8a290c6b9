"""PPO killed inside an iteration, in each of its parts, goes on to the numbers of the run that was not."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

from tests.integration.tiny_run import ROOT, command, environment, metrics, train

# everything with a state of its own: beta, statistics of the scores, prompts, text, critic, noise
OPTIONS = (
    "stages.policy.kl={mode: adaptive, beta: 0.1, target: 0.5, horizon: 64, ceiling: 100.0}",
    "stages.policy.scores={normalise: running, clip: 4.0}",
    "+stages.policy.pretraining={data: {source: stdlib_docs, split: train, limit: 200}, coef: 0.3, seq_len: 64, "
    "batch_rows: 4}",
    "stages.policy.save_every=1 step",
    "stages.policy.budget=5 steps",
)
DIES = """
import os, signal, sys
from llmstack.stages.learner import Learner
from llmstack.stages.online import rollout
from llmstack.stages.online.rewards import ModelReward
from llmstack.stages.ppo.stage import PpoStage

place, iteration, call = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
del sys.argv[1:4]
owner, name = {"rollout": (rollout, "assemble"), "score": (ModelReward, "score"), "update": (Learner, "update")}[place]
step, inner, now = PpoStage.step, getattr(owner, name), {"iteration": 0, "calls": 0}

def counted(self, index):
    now.update(iteration=index, calls=0)
    return step(self, index)

def deadly(*arguments, **options):
    result = inner(*arguments, **options)
    now["calls"] += 1
    if (now["iteration"], now["calls"]) == (iteration, call):
        os.kill(os.getpid(), signal.SIGKILL)
    return result

PpoStage.step = counted
setattr(owner, name, deadly)
"""


def killed(folder, place, iteration, call):
    _, flag, program, *rest = command(folder, *OPTIONS)
    argv = [sys.executable, flag, DIES + program, place, str(iteration), str(call), *rest]
    done = subprocess.run(argv, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_killed_in_rollout_scoring_and_update(straight, tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    for copy in (whole, folder):
        shutil.copytree(straight, copy)
    done = train(whole, *OPTIONS)
    assert done.returncode == 0, done.stderr
    killed(folder, "rollout", 2, 1)
    killed(folder, "score", 3, 1)
    killed(folder, "update", 4, 3)
    done = train(folder, *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert metrics(folder, "policy") == metrics(whole, "policy")
    assert len(metrics(whole, "policy")) > 5
    for name in ("rows.jsonl", "samples.jsonl", "final/model.safetensors"):
        assert (folder / "policy" / name).read_bytes() == (whole / "policy" / name).read_bytes(), name
