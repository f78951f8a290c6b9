"""The recipes of docs/distillation.md load, and the table has every option."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from llmstack.config.distill import DivergenceConfig
from llmstack.config.load import load_recipe
from tests.helpers import stages as tiny

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


def test_the_table_has_every_option_of_a_divergence():
    assert [key for key in DivergenceConfig.model_fields if f"`divergence.{key}`" not in PAGE] == []
