"""Every example of docs/extending.md, written to files beside a recipe that uses them all, and run."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys

import numpy as np

from llmstack.registry import ADVANTAGES
from llmstack.rl.advantages import AnswerGroups
from llmstack.testing.advantages import check_advantage
from tests.helpers.examples import PAGE, write_examples
from tests.integration.tiny_run import environment

RECIPE = """
defaults:
  - /model: tiny_llama
  - /tokenizer: bpe
  - /optim: adamw
  - /parallel: single
  - /stage@stages.sft: sft
  - /stage@stages.policy: ppo
  - /stage@stages.groups: grpo
  - _self_
name: own_parts
seed: 1
plugins: [my_rewards, my_lengths, my_advantages, my_stages, my_sources, my_schedules, my_families, my_blocks]
model: {family: reglu_llama, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1,
        head_dim: 16, intermediate_size: 48, vocab_size: null}
tokenizer: {vocab_size: 280, data: {source: sums, upto: 9}}
optim: {schedule: {name: halves, warmup: 2 steps}}
stages:
  sft:
    kind: ending_sft
    ending_weight: 8.0
    data: {source: sums, upto: 5}
    eval_data: {source: sums, upto: 3}
    budget: 6 steps
    batch_rows: 4
  policy:
    init_from: sft
    reference: sft
    reward: {kind: brevity}
    yardsticks: {four_tokens: {kind: length, tokens: 4}}
    data: {source: sums}
    eval_data: {source: sums, upto: 3}
    budget: 2 steps
    batch_rows: 8
    eval_prompts: 8
    response_len: 6
    prompt_buckets: [32]
  groups:
    init_from: sft
    reference: sft
    reward: {kind: length, tokens: 4}
    advantage: {kind: median, limit: 1.0}
    kl: {beta: 0.01}
    data: {source: sums}
    eval_data: {source: sums, upto: 3}
    budget: 2 steps
    batch_rows: 8
    samples_per_prompt: 4
    eval_prompts: 8
    response_len: 6
    prompt_buckets: [32]
"""


PLUGINS = [
    "my_advantages",
    "my_blocks",
    "my_families",
    "my_lengths",
    "my_rewards",
    "my_schedules",
    "my_sources",
    "my_stages",
]


def llmstack(folder, program, *arguments):
    """Runs the command line by a one-line program and gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_runs(tmp_path):
    assert sorted(write_examples(tmp_path)) == PLUGINS
    recipe = tmp_path / "own.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")
    program = "import sys; from llmstack.cli.main import main; sys.exit(main())"
    llmstack(tmp_path, program, "train", str(recipe), f"run_dir={tmp_path / 'run'}")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["stages"]["sft"]["kind"] == "ending_sft"
    # brevity of answers of at most six tokens: none has more than ten words
    assert summary["stages"]["policy"]["metrics"]["eval/score"] == 0.0
    # answers have one to six tokens, four are wanted
    assert -3.0 <= summary["stages"]["policy"]["metrics"]["eval/four_tokens"] <= 0.0
    groups = [json.loads(line) for line in (tmp_path / "run/groups/metrics.jsonl").read_text().splitlines()]
    assert 0 <= max(line["train/advantage_max"] for line in groups if "train/advantage_max" in line) <= 1.0
    rates = [json.loads(line).get("train/lr") for line in (tmp_path / "run/sft/metrics.jsonl").read_text().splitlines()]
    assert [rate for rate in rates if rate]
    final = tmp_path / "run" / "policy" / "final"
    assert json.loads((final / "config.json").read_text(encoding="utf-8"))["model_type"] == "reglu_llama"
    told = llmstack(tmp_path, own_program(), "generate", str(final), "--prompt", "1 + 2 =", "--max-new-tokens", "4")
    assert told.strip()


def test_the_advantage_of_the_page_is_short_and_holds(tmp_path, monkeypatch):
    """A method of one's own is a few lines, and the check the page names finds nothing."""
    write_examples(tmp_path)
    source = (tmp_path / "my_advantages.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) < 40
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("my_advantages")
    check_advantage(ADVANTAGES.get("median"), module.MedianConfig(kind="median"))
    with_outlier = AnswerGroups(np.array([0, 1, 2, 99.0]), np.ones(4, bool), None, np.zeros((4, 1)), np.ones((4, 1)), 4)
    assert module.median(with_outlier, module.MedianConfig(kind="median")).tolist() == [-1.5, -0.5, 0.5, 2.0]


def own_program():
    """The page's way to use a plugin's model family where no recipe names the plugin."""
    (program,) = re.findall(r"^python -c '([^']+)' generate MODEL_DIR", PAGE, flags=re.MULTILINE)
    return program


def test_a_changed_plugin_is_noticed(tmp_path):
    """The words of the page on fingerprints: plugin code counts with its source file."""
    from llmstack.engine.fingerprint import code_version

    for value in (1, 2):
        module = tmp_path / "noticed.py"
        module.write_text(f"def reward(batch):\n    return [{value}.0]\n", encoding="utf-8")
        space: dict = {}
        exec(compile(module.read_text(encoding="utf-8"), str(module), "exec"), space)  # noqa: S102
        space["reward"].__module__ = "noticed"
        if value == 1:
            before = code_version(space["reward"])
    assert code_version(space["reward"]) != before
