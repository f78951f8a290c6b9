from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest
from pydantic import BaseModel

from llmstack import catalog, registry

TABLES = {
    "STAGES": {"pretrain", "sft", "reward", "ppo", "grpo"},
    "MODELS": {"llama", "mistral", "qwen2", "qwen3"},
    "PROVIDERS": {"native", "mindformers"},
    "REWARDS": {
        "model",
        "pep257_style",
        "exact_match",
        "numeric_answer",
        "format_regex",
        "length_shaping",
        "repetition",
        "function",
        "steps",
        "combine",
        "http",
        "verifier",
    },
    "ADVANTAGES": {"grpo", "dr_grpo", "rloo", "reinforce_pp"},
    "AGGREGATIONS": {"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm"},
    "SOURCES": {
        "arithmetic",
        "text",
        "blend",
        "jsonl",
        "parquet",
        "hf_dataset",
        "megatron",
        "mindrecord",
        "callable",
        "concat",
        "stdlib_docs",
        "stdlib_summaries",
        "stdlib_style_pairs",
    },
    "ANNOTATORS": {"endpoint", "model", "human"},
    "OPTIMIZERS": {"adamw", "mindformers:AdamW"},
    "SCHEDULES": {
        "constant",
        "linear",
        "cosine",
        "wsd",
        "mindformers:ConstantWarmUpLR",
        "mindformers:LinearWithWarmUpLR",
        "mindformers:CosineWithWarmUpLR",
        "mindformers:PolynomialWithWarmUpLR",
        "mindformers:WarmUpStableDecayLR",
    },
}
BUILT_INS = [(table, name) for table, names in TABLES.items() for name in sorted(names)]


def test_the_built_ins_are_these():
    for table, names in TABLES.items():
        assert {entry.name for entry in getattr(catalog, table)} == names
        assert names <= set(getattr(registry, table).names())


@pytest.mark.parametrize(("table", "name"), BUILT_INS)
def test_a_built_in_has_an_address_that_exists_and_a_summary(table, name):
    entry = next(entry for entry in getattr(catalog, table) if entry.name == name)
    module, _, attribute = entry.target.partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, f"{module} does not exist"
    assert attribute in defined_names(Path(spec.origin)), f"{module} does not define {attribute}"
    assert entry.summary


@pytest.mark.parametrize(
    ("table", "name"), [(t, n) for t, n in BUILT_INS if t in ("STAGES", "REWARDS", "SOURCES", "ANNOTATORS")]
)
def test_the_options_of_a_built_in_are_a_model(table, name):
    assert issubclass(getattr(registry, table).config(name), BaseModel)


def defined_names(file: Path) -> set[str]:
    """The names a module binds at its top level."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names
