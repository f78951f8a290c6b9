"""One tiny model, and generators that are compiled once a module."""

from __future__ import annotations

import numpy as np
import pytest

from llmstack.generation.generator import Generator
from llmstack.models.checkpoint_io import build_causal
from tests.helpers.models import tiny_config, vary_norms

ROWS, PROMPT_LEN, NEW_TOKENS = 3, 5, 6


@pytest.fixture(scope="module")
def model():
    model = build_causal(tiny_config(num_hidden_layers=1), seed=2)
    vary_norms(model)
    return model


@pytest.fixture(scope="module")
def generator(model):
    return Generator(model, batch_rows=ROWS, prompt_len=PROMPT_LEN, max_new_tokens=NEW_TOKENS, eos_ids=())


@pytest.fixture(scope="module")
def prompts(model):
    rng = np.random.default_rng(1)
    return [rng.integers(0, model.vocab_size, length).tolist() for length in (5, 2, 1)]
