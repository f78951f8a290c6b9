"""A recipe of all kinds of stages on a few lines of data, for the commands that look at data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TEXT = """
defaults: [/model: tiny_llama, /tokenizer: bpe, /optim: adamw, /parallel: single, /stage@stages.base: pretrain,
  /stage@stages.sft: sft, /stage@stages.rm: reward, /stage@stages.policy: ppo, _self_]
name: small
seed: 1
model: {vocab_size: null}
tokenizer: {vocab_size: 280, data: {source: jsonl, record: text, path: general.jsonl}}
stages:
  base:
    kind: pretrain
    data:
      source: blend
      parts:
        general:
          data: {source: jsonl, record: text, path: general.jsonl}
          weight: {shape: linear, points: [{at: 0 tokens, weight: 0.9}, {at: 1000 tokens, weight: 0.2}]}
        domain:
          data: {source: jsonl, record: text, path: domain.jsonl}
          weight: {shape: linear, points: [{at: 0 tokens, weight: 0.1}, {at: 1000 tokens, weight: 0.8}]}
    eval_data:
      source: concat
      of:
        general: {source: jsonl, record: text, path: general.jsonl}
        domain: {source: jsonl, record: text, path: domain.jsonl}
    budget: 1000 tokens
    batch_rows: 2
    accumulate: 2
    seq_len: 32
  sft:
    kind: sft
    init_from: base
    data: {source: jsonl, record: prompt_response, path: answers.jsonl}
    eval_data: {source: jsonl, record: prompt_response, path: answers.jsonl}
    budget: 2 epochs
    batch_rows: 2
    seq_len: 48
  rm:
    kind: reward
    init_from: sft
    data: {source: jsonl, record: preference, path: pairs.jsonl}
    eval_data: {source: jsonl, record: preference, path: pairs.jsonl}
    budget: 1 epoch
    batch_rows: 2
    seq_len: 64
    length_buckets: [48, 64]
    max_dropped_ratio: 0.2
  policy:
    kind: ppo
    init_from: sft
    reference: sft
    reward: {kind: model, from: rm}
    data: {source: jsonl, record: prompt, path: prompts.jsonl}
    eval_data: {source: jsonl, record: prompt, path: prompts.jsonl}
    budget: 5 steps
    batch_rows: 4
    eval_prompts: 3
    minibatches: 2
    prompt_buckets: [48]
    response_len: 8
    critic: {init_from: rm}
"""
COLOURS = ("red", "green", "blue", "black", "white")


def write_recipe(folder: Path) -> Path:
    """The recipe and its data, whose paths count from the folder.

    Args:
        folder: an existing folder, the working directory of the command.
    """
    general = [f"{COLOURS[n % 5]} is number {n} and {COLOURS[n % 3]} is not " * (1 + n % 4) for n in range(12)]
    _jsonl(folder / "general.jsonl", [{"text": text} for text in [*general, ""]])
    _jsonl(folder / "domain.jsonl", [{"text": f"{COLOURS[n % 5]} {n} + {n} = {2 * n}"} for n in range(9)])
    _jsonl(folder / "answers.jsonl", [{"prompt": f"say {c}", "response": f"{c} it is"} for c in COLOURS])
    pairs = [{"prompt": c, "chosen": f"{c} it is", "rejected": "no" if n else "no and no and no"}
             for n, c in enumerate(COLOURS)]  # fmt: skip
    _jsonl(folder / "pairs.jsonl", [*pairs, {"prompt": "same", "chosen": "x", "rejected": "x"}])
    _jsonl(folder / "prompts.jsonl", [{"prompt": f"which is {c}?", "answer": c} for c in COLOURS])
    path = folder / "small.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
