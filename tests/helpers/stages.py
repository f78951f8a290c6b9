"""Tiny models, a tiny tokenizer and stage options, small enough that a graph compiles in about a second."""

from __future__ import annotations

import functools
import json

import numpy as np

from llmstack.config.model import ModelConfig
from llmstack.data.bpe import train_bpe
from llmstack.data.chat import CHATML
from llmstack.data.tokenizer import Tokenizer
from llmstack.models.checkpoint_io import build_causal, build_scalar, save_model
from llmstack.stages.base import StageContext

WORDS = ("red", "green", "blue", "black", "white")
OPTIM = {
    "name": "adamw",
    "lr": 1e-2,
    "betas": (0.9, 0.95),
    "eps": 1e-8,
    "weight_decay": 0.1,
    "max_grad_norm": 1.0,
    "schedule": {"name": "constant", "warmup": "0 steps", "final_ratio": 1.0},
}
COMMON = {
    "budget": "20 steps",
    "batch_rows": 4,
    "optim": OPTIM,
    "log_every": "1 step",
    "eval_every": "10 steps",
    "save_every": "10 steps",
}


@functools.cache
def tokenizer() -> Tokenizer:
    return Tokenizer(*train_bpe([" ".join(WORDS)] * 4, 278), CHATML)


def model_config(**changes) -> ModelConfig:
    values = {
        "family": "llama",
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "intermediate_size": 24,
        "vocab_size": tokenizer().vocab_size,
        "max_position_embeddings": 64,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "initializer_range": 0.05,
    }
    return ModelConfig(**(values | changes))


def context(inputs=None, *, name="stage", seed=3) -> StageContext:
    return StageContext(name=name, seed=seed, model=model_config(), tokenizer=tokenizer(), inputs=inputs or {})


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def colours(count, seed=0):
    """Seeded lists of colour words."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 5))) for _ in range(count)]


def causal_folder(path, *, seed=0):
    path.mkdir()
    save_model(build_causal(model_config(), seed=seed), path)
    return path


def scalar_folder(path, *, seed=1):
    path.mkdir()
    save_model(build_scalar(model_config(), seed=seed), path)
    return path


def bare(kind):
    """A stage class without the hooks it leaves to subclasses, for tests of the parts it shares."""
    return type(f"Bare{kind.__name__}", (kind,), {name: None for name in kind.__abstractmethods__})


def same_state(a, b) -> bool:
    """Whether two stage states are bitwise the same."""
    same = a.trainer == b.trainer and a.params.keys() == b.params.keys() and a.optimizer.keys() == b.optimizer.keys()
    return same and all(
        np.array_equal(x[name], y[name]) for x, y in ((a.params, b.params), (a.optimizer, b.optimizer)) for name in x
    )
