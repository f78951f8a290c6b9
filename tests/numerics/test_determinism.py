"""The same step gives the same bits: exact resume rests on it.

CPU kernels of the framework search for their best split over threads while they run; an operator whose vector and
scalar code round differently then answers differently from call to call (Softplus does, and is not used).
"""

from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.optim import OptimConfig
from llmstack.losses.ppo import PolicyLoss
from llmstack.models.checkpoint_io import build_causal, build_scalar
from llmstack.models.weights import export_arrays, import_arrays
from llmstack.stages.learner import Learner
from llmstack.stages.objectives import LanguageObjective, PairObjective, PolicyObjective
from tests.helpers.stages import OPTIM, model_config

REPEATS = 30  # the search for a split ends after about 25 calls
ROWS, LENGTH, TARGETS = 6, 11, 33


def base(rng):
    tokens = rng.integers(3, 200, (ROWS, LENGTH)).astype(np.int32)
    positions = np.tile(np.arange(LENGTH, dtype=np.int32), (ROWS, 1))
    return {"tokens": tokens, "positions": positions, "segments": np.ones((ROWS, LENGTH), np.int32)}


def targets(rng):
    return {
        "targets": rng.integers(0, ROWS * LENGTH, TARGETS).astype(np.int32),
        "labels": rng.integers(3, 200, TARGETS).astype(np.int32),
    }


def language(rng):
    model = build_causal(model_config(), seed=0)
    return (
        model,
        LanguageObjective(model, z_loss=1e-3),
        base(rng) | targets(rng) | {"mask": np.ones(TARGETS, np.float32)},
    )


def pairs(rng):
    model = build_scalar(model_config(), seed=0)
    last = np.full(ROWS, LENGTH - 1, np.int32)
    return model, PairObjective(model, centering=0.1), base(rng) | {"last": last, "margin": np.zeros(3, np.float32)}


def policy(rng):
    model = build_causal(model_config(), seed=0)
    loss = PolicyLoss(0.2, 0.3, dual_clip=3.0, entropy_coef=0.01, kl_coef=0.1)
    rows = {name: rng.normal(size=TARGETS).astype(np.float32) for name in ("old_logp", "ref_logp", "advantage")}
    ends = rows | {"mask": np.ones(TARGETS, np.float32)}
    return model, PolicyObjective(model, loss), base(rng) | targets(rng) | {"temperature": np.float32(0.7)} | ends


@pytest.mark.parametrize("make", [language, pairs, policy])
def test_one_step_always_gives_the_same_bits(make):
    model, objective, batch = make(np.random.default_rng(0))
    learner = Learner(objective, model, OptimConfig.model_validate(OPTIM))
    weights, optimizer = export_arrays(model), learner.state()
    seen = set()
    for _ in range(REPEATS):
        import_arrays(model, weights, source="test")
        learner.restore(optimizer)
        report = learner.update(float(TARGETS), [batch], 10)
        after = b"".join(array.tobytes() for array in export_arrays(model).values())
        seen.add((report.loss, report.grad_norm, report.metrics, after))
    assert len(seen) == 1
