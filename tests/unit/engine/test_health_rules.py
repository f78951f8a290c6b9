"""Each known trouble on a made-up log: its own sentence and no other; a healthy log calls for none."""

from __future__ import annotations

import re

import numpy as np
import pytest

from llmstack.engine.health import Monitor
from llmstack.engine.health_rules import RULES
from tests.meta.source import ROOT

LINES = 40


def noisy(values, size, seed=0):
    return np.asarray(values, float) + size * np.random.default_rng(seed).normal(size=len(values))


def rising(start, end, count=LINES):
    return np.linspace(start, end, count)


def healthy_policy() -> dict[str, np.ndarray]:
    """A run of a policy as it should be, by metric."""
    flat = np.ones(LINES)
    return {
        "train/score_mean": noisy(rising(0.0, 2.5), 0.15, 1),
        "train/response_tokens": noisy(14 * flat, 1.0, 2),
        "train/token_kl_policy_ref": np.abs(noisy(np.minimum(rising(0.0, 0.5), 0.25), 0.02, 3)),
        "train/entropy": noisy(rising(4.5, 3.4), 0.1, 4),
        "train/explained_variance": noisy(rising(-0.3, 0.6), 0.1, 5),
        "train/clip_fraction": np.abs(noisy(0.08 * flat, 0.03, 6)),
        "train/kl_old_new": np.abs(noisy(2e-3 * flat, 5e-4, 7)),
        "train/unscored_ratio": 0.01 * flat,
        "train/truncated_ratio": 0.1 * flat,
        "train/empty_ratio": 0.02 * flat,
        "train/zero_spread_ratio": 0.3 * flat,
        "train/sampler_mismatch": 1e-6 * flat,
        "train/skipped_steps": 0 * flat,
    }


def healthy_language() -> dict[str, np.ndarray]:
    """A run of pretraining or fine-tuning as it should be."""
    return {
        "train/loss": noisy(4.0 + 3.0 * np.exp(-rising(0, 5)), 0.05, 8),
        "train/grad_norm": noisy(np.ones(LINES), 0.1, 9),
        "train/skipped_steps": np.repeat([0, 1], LINES // 2).astype(float),
    }


def found(columns, every=10) -> list[str]:
    monitor = Monitor(RULES)
    advice = []
    for line in range(LINES):
        values = {name: None if np.isnan(column[line]) else float(column[line]) for name, column in columns.items()}
        advice += monitor.read(every * (line + 1), values)
    assert all(re.fullmatch(r"[A-Z][^.]*(?:\.\S[^.]*)*\.", item.sentence) for item in advice), "one plain sentence each"
    assert all("nan" not in item.sentence for item in advice)
    return [item.name for item in advice]


SICK_POLICIES = {
    "kl_runaway": {"train/token_kl_policy_ref": 0.01 * 1.2 ** np.arange(LINES)},
    "entropy_collapse": {"train/entropy": noisy(4.5 * 0.9 ** np.arange(LINES), 0.01)},
    "length_growth": {
        "train/response_tokens": noisy(rising(14, 40), 1.0),
        "train/score_mean": noisy(np.full(LINES, 1.0), 0.2, 1),
    },
    "reward_hacking_by_length": {
        "train/response_tokens": noisy(rising(14, 40), 0.5),
        "train/score_mean": noisy(rising(0, 3), 0.05, 1),
    },
    "value_not_learning": {"train/explained_variance": noisy(np.full(LINES, -0.2), 0.05)},
    "equal_groups": {"train/zero_spread_ratio": noisy(rising(0.2, 1.0), 0.02)},
    "clipping_too_much": {"train/clip_fraction": noisy(np.full(LINES, 0.45), 0.05)},
    "no_effect": {
        "train/token_kl_policy_ref": noisy(np.zeros(LINES), 1e-5),
        "train/kl_old_new": np.abs(noisy(np.zeros(LINES), 6e-8)),
        "train/clip_fraction": np.zeros(LINES),
    },
    "many_unscored": {"train/unscored_ratio": noisy(np.full(LINES, 0.4), 0.05)},
    "many_truncated": {"train/truncated_ratio": noisy(np.full(LINES, 0.8), 0.05)},
    "many_empty": {"train/empty_ratio": noisy(np.full(LINES, 0.6), 0.05)},
    "sampler_mismatch": {"train/sampler_mismatch": noisy(np.full(LINES, 0.4), 0.05)},
    "steps_skipped": {"train/skipped_steps": 2.0 * np.arange(LINES)},
}
SICK_LANGUAGE = {
    "loss_not_falling": {"train/loss": noisy(np.full(LINES, 6.5), 0.02)},
    "loss_exploding": {"train/loss": np.concatenate([rising(7, 4, 30), rising(4, 30, 10)])},
    "steps_skipped": {"train/skipped_steps": 3.0 * np.arange(LINES)},
}


def test_no_rule_is_untested():
    assert set(SICK_POLICIES) | set(SICK_LANGUAGE) == {rule.__name__ for rule in RULES}


def test_healthy_logs_call_for_no_advice():
    assert found(healthy_policy()) == []
    assert found(healthy_language()) == []
    assert found({}) == []


@pytest.mark.parametrize("name", SICK_POLICIES)
def test_a_sick_policy_gets_its_own_sentence_and_no_other(name):
    assert found(healthy_policy() | SICK_POLICIES[name]) == [name]


@pytest.mark.parametrize("name", SICK_LANGUAGE)
def test_a_sick_language_model_gets_its_own_sentence_and_no_other(name):
    assert found(healthy_language() | SICK_LANGUAGE[name]) == [name]


def test_a_high_kl_that_no_longer_grows_is_no_runaway_unless_it_is_absurd():
    name = "train/token_kl_policy_ref"
    assert found(healthy_policy() | {name: noisy(np.full(LINES, 0.9), 0.02)}) == []
    assert found(healthy_policy() | {name: noisy(np.full(LINES, 3.0), 0.02)}) == ["kl_runaway"]


def test_answers_without_a_score_may_grow():
    assert found({"train/response_tokens": noisy(rising(14, 60), 0.5)}) == []


def test_growing_answers_whose_lengths_stay_are_no_hacking():
    lengths = np.concatenate([np.full(20, 14.0), np.full(20, 16.0)])
    assert found(healthy_policy() | {"train/response_tokens": noisy(lengths, 0.2)}) == []


def test_one_update_an_iteration_has_no_old_and_new_policy_and_is_not_said_to_do_nothing():
    assert found(healthy_policy() | {"train/kl_old_new": np.zeros(LINES), "train/clip_fraction": np.zeros(LINES)}) == []


def test_a_small_loss_that_doubles_is_noise():
    noise = 0.05 + 0.05 * (np.arange(LINES) % 2)
    assert found({"train/loss": np.concatenate([rising(0.69, 0.1, 20), noise[:20]])}) == []


def test_the_loss_of_a_policy_is_not_judged_because_it_is_no_measure():
    assert found(healthy_policy() | {"train/loss": noisy(np.zeros(LINES), 0.05)}) == []


def test_a_trouble_that_comes_back_is_told_again():
    bad, good = np.full(10, 0.9), np.full(10, 0.1)
    assert found({"train/truncated_ratio": np.concatenate([bad, good, bad, good])}) == ["many_truncated"] * 2


def test_null_readings_are_put_up_with():
    columns = healthy_policy()
    for seed, name in enumerate(columns):
        columns[name] = np.where(np.random.default_rng(seed).random(LINES) < 0.2, np.nan, columns[name])
    assert found(columns) == []
    assert found({name: np.full(LINES, np.nan) for name in columns | healthy_language()}) == []


def test_the_page_names_every_rule():
    page = (ROOT / "docs" / "health.md").read_text(encoding="utf-8")
    assert [rule.__name__ for rule in RULES if f"`{rule.__name__}`" not in page] == []
