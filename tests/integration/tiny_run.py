"""The quickstart made tiny: the same four stages in about a minute, most of it compiling."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
STAGES = ("base", "sft", "rm", "policy")
OVERRIDES = (
    "model.hidden_size=32",
    "model.num_hidden_layers=1",
    "model.num_attention_heads=2",
    "model.num_key_value_heads=1",
    "model.head_dim=16",
    "model.intermediate_size=64",
    "model.vocab_size=512",
    "tokenizer.vocab_size=512",
    "tokenizer.data.limit=400",
    "stages.base.data.limit=300",
    "stages.base.eval_data.limit=40",
    "stages.base.budget=12 steps",
    "stages.sft.data.limit=300",
    "stages.sft.eval_data.limit=40",
    "stages.sft.budget=12 steps",
    "stages.rm.data.limit=200",
    "stages.rm.eval_data.limit=40",
    "stages.rm.budget=12 steps",
    "stages.policy.budget=4 steps",
    "stages.policy.batch_rows=8",
    "stages.policy.eval_prompts=8",
    "stages.policy.response_len=8",
    "stages.policy.prompt_buckets=[96]",
)
EVERY = {"base": 5, "sft": 5, "rm": 5, "policy": 2}


def overrides(run_dir: Path) -> list[str]:
    often = [
        f"stages.{name}.{key}={steps if key != 'log_every' else 1} steps"
        for name, steps in EVERY.items()
        for key in ("log_every", "eval_every", "save_every")
    ]
    rows = [f"stages.{name}.batch_rows=4" for name in ("base", "sft", "rm")]
    return [*OVERRIDES, *often, *rows, f"run_dir={run_dir}"]


def train(run_dir: Path, *more: str, timeout: float = 400, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(run_dir, *more), cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=timeout, **options
    )


def command(run_dir: Path, *more: str) -> list[str]:
    program = "import sys; from llmstack.cli.main import main; sys.exit(main())"
    return [sys.executable, "-c", program, "train", "quickstart", *overrides(run_dir), *more]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def summary(run_dir: Path) -> dict:
    return json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))


def metrics(run_dir: Path, stage: str) -> list[dict]:
    """The stage's log without what depends on the clock."""
    lines = (run_dir / stage / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    clocks = ("time", "tokens_per_second")
    parsed = (json.loads(line) for line in lines)
    return [{k: v for k, v in line.items() if k not in clocks and not k.startswith("seconds/")} for line in parsed]


def wait_for_steps(log: Path, steps: int, process: subprocess.Popen) -> None:
    """Until a log has the line of a step."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if log.is_file() and f'"step": {steps},' in log.read_text(encoding="utf-8"):
            return
        time.sleep(0.02)
    raise AssertionError(process.stderr.read() if process.poll() is not None else f"no step {steps} in {log}")
