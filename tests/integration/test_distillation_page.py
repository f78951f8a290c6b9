"""The recipes of docs/distillation.md load, the shipped one runs, and the table has every option."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import yaml

from llmstack.config.distill import DivergenceConfig
from llmstack.config.load import load_recipe
from tests.helpers import stages as tiny
from tests.integration.tiny_run import environment
from tests.tolerances import EQUIVALENCE_ATOL

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "distillation.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- file: ([\w.]+) -->\n```yaml\n(.*?)```", PAGE, flags=re.DOTALL))


def place(folder, monkeypatch, text):
    """A recipe beside the files it names."""
    monkeypatch.chdir(folder)
    (folder / "models").mkdir()
    for name in ("teacher", "student"):
        tiny.tokenizer().save(tiny.causal_folder(folder / "models" / name))
    for name in ("train", "held_out", "prompts"):
        (folder / f"{name}.jsonl").write_text("")
    path = folder / "student.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_student_on_data(tmp_path, monkeypatch):
    loaded = load_recipe(place(tmp_path, monkeypatch, FILES["student.yaml"]))
    stage = loaded.config.stages["student"]
    assert (stage.kind, stage.data_kind, stage.divergence.top_k) == ("distill", "chat", 64)


def test_a_student_on_its_own_answers(tmp_path, monkeypatch):
    whole = yaml.safe_load(FILES["student.yaml"]) | yaml.safe_load(FILES["online.yaml"])
    whole["defaults"] = [entry for entry in whole["defaults"] if entry != {"/stage@stages.student": "distill"}]
    loaded = load_recipe(place(tmp_path, monkeypatch, yaml.safe_dump(whole, sort_keys=False)))
    assert loaded.config.stages["student"].divergence.kind == "reverse_kl"


def test_the_shipped_recipe_runs_made_tiny(tmp_path):
    stages = ("teacher", "alone", "student")
    small = {
        "model.hidden_size": 32, "model.num_hidden_layers": 1, "model.num_attention_heads": 2,
        "model.num_key_value_heads": 2, "model.head_dim": 16, "model.intermediate_size": 48, "model.vocab_size": 512,
        "tokenizer.vocab_size": 512, "tokenizer.data.limit": 400,
    }  # fmt: skip
    halves = {"hidden_size": 16, "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 24}
    for name in stages:
        small |= {f"stages.{name}.{data}.limit": 60 for data in ("data", "eval_data")}
        small |= {f"stages.{name}.budget": "2 steps", f"stages.{name}.batch_rows": 2, f"stages.{name}.seq_len": 64}
    for name in stages[1:]:
        small |= {f"stages.{name}.model.{key}": value for key, value in halves.items()}
    overrides = [f"{key}={value}" for key, value in small.items()]
    program = "import sys; from llmstack.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "train", "distill_quickstart", f"run_dir={tmp_path}", *overrides]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["stages"]
    last = {name: summary[name]["metrics"] for name in stages}
    # one teacher: its loss in the student's stage is that of its own evaluation, of as many rows
    np.testing.assert_allclose(
        last["student"]["eval/teacher_loss"], last["teacher"]["eval/loss"], rtol=0, atol=EQUIVALENCE_ATOL
    )
    widths = [json.loads((tmp_path / name / "final" / "config.json").read_text())["hidden_size"] for name in stages]
    assert widths == [32, 16, 16]


def test_the_table_has_every_option_of_a_divergence():
    assert [key for key in DivergenceConfig.model_fields if f"`divergence.{key}`" not in PAGE] == []
