"""A blended corpus through the command line: shares follow their schedule, and a killed run reads the same rows."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.integration.tiny_run import ROOT, environment, metrics, wait_for_steps
from tests.tolerances import F32_ATOL, F32_RTOL

STEPS, ROWS = 24, 8
RECIPE = """\
defaults: [/model: tiny_llama, /optim: adamw, /parallel: single, /stage@stages.base: pretrain, _self_]
name: blend
seed: 3
run_dir: {run}
model: {{hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, head_dim: 16,
  intermediate_size: 64}}
tokenizer: {{kind: bpe, vocab_size: 300, data: {{source: text, path: {folder}/general.txt}}}}
stages:
  base:
    kind: pretrain
    seq_len: 64
    batch_rows: {batch_rows}
    accumulate: {accumulate}
    budget: {steps} steps
    log_every: 1 steps
    save_every: 5 steps
    eval_every: 100 steps
    data:
      source: blend
      parts:
        general:
          data: {{source: text, path: {folder}/general.txt, split_documents: blank_line}}
          weight: {{shape: linear, points: [{{at: 0 tokens, weight: 0.9}}, {{at: 10k tokens, weight: 0.2}}]}}
        domain:
          data: {{source: text, path: {folder}/domain.txt, split_documents: blank_line}}
          weight: {{shape: linear, points: [{{at: 0 tokens, weight: 0.1}}, {{at: 10k tokens, weight: 0.8}}]}}
    eval_data:
      source: concat
      of:
        general: {{source: text, path: {folder}/general.txt, split_documents: blank_line}}
        domain: {{source: text, path: {folder}/domain.txt, split_documents: blank_line}}
"""


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    draw = random.Random(0)
    for name, words in (("general", "the a of to in it is"), ("domain", "if else for def return yield")):
        blocks = [" ".join(draw.choices(words.split(), k=draw.randint(5, 60))) for _ in range(120)]
        (folder / f"{name}.txt").write_text("\n\n".join(blocks))
    return folder


def start(texts, run, *, batch_rows, accumulate):
    recipe = run.with_suffix(".yaml")
    text = RECIPE.format(run=run, folder=texts, batch_rows=batch_rows, accumulate=accumulate, steps=STEPS)
    recipe.write_text(text)
    program = "import sys; from llmstack.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "train", str(recipe)]
    return subprocess.Popen(
        words, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


@pytest.fixture(scope="module")
def straight(texts, tmp_path_factory):
    run = tmp_path_factory.mktemp("straight") / "run"
    finish(start(texts, run, batch_rows=ROWS, accumulate=1))
    return run


def rows(run):
    return (run / "base" / "rows.jsonl").read_text()


def test_shares_follow_the_schedule(straight):
    lines = [line for line in metrics(straight, "base") if "data/general/weight" in line]
    assert len(lines) == STEPS
    taken = 0
    for number, line in enumerate(lines, start=1):
        # the weight is the one at the last row of the step, a little before its last token
        expected = 0.9 - 0.7 * min((number * ROWS - 1) * 63.0 / 10_000, 1.0)
        assert line["data/general/weight"] == pytest.approx(expected, abs=0.02)
        assert line["data/general/weight"] + line["data/domain/weight"] == pytest.approx(1.0)
        assert line["data/general/share"] + line["data/domain/share"] == pytest.approx(1.0)
        taken += len(json.loads(rows(straight).splitlines()[number - 1])["rows"].get("general", []))
        target = sum(0.9 - 0.7 * min(row * 63.0 / 10_000, 1.0) for row in range(number * ROWS))
        # rounding is half a row; the rest is that rows hold not quite 63 tokens on average
        assert abs(taken - target) < 3
    assert lines[0]["data/general/share"] > 0.7 and lines[-1]["data/general/share"] < 0.5
    served = lines[-1]["data/general/tokens"] + lines[-1]["data/domain/tokens"]
    assert served == lines[-1]["tokens"]


def test_each_part_is_evaluated_on_its_own(straight):
    first, last = (next(line for line in metrics(straight, "base")[::step] if "eval/loss" in line) for step in (1, -1))
    for name in ("eval/loss", "eval/general/loss", "eval/domain/loss"):
        assert last[name] < first[name]
    parts = sorted((last["eval/general/loss"], last["eval/domain/loss"]))
    assert parts[0] <= last["eval/loss"] <= parts[1]


@pytest.mark.parametrize(("batch_rows", "accumulate"), [(ROWS, 1), (2, 4)], ids=["same", "other_micro_batches"])
def test_a_killed_run_reads_the_rows_of_a_straight_one(texts, straight, tmp_path, batch_rows, accumulate):
    run = tmp_path / "run"
    process = start(texts, run, batch_rows=ROWS, accumulate=1)
    wait_for_steps(run / "base" / "metrics.jsonl", 13, process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert max(path.name for path in (run / "base" / "checkpoints").glob("step_*")) in (
        "step_00000010",
        "step_00000015",
    )
    finish(start(texts, run, batch_rows=batch_rows, accumulate=accumulate))
    assert rows(run) == rows(straight)
    told, expected = (
        np.array([line["train/loss"] for line in metrics(folder, "base") if "train/loss" in line])
        for folder in (run, straight)
    )
    if accumulate == 1:
        assert metrics(run, "base") == metrics(straight, "base")
    else:
        assert np.array_equal(told[:10], expected[:10])
        np.testing.assert_allclose(told, expected, rtol=F32_RTOL, atol=F32_ATOL)
    shutil.rmtree(run)
