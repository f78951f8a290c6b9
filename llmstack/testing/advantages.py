"""What every advantage function must hold to."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from llmstack.config.grpo import AdvantageConfig
from llmstack.rl.advantages import Advantage, AnswerGroups, spread

_SIZE, _LONGEST = 4, 5


def check_advantage(function: Advantage, config: AdvantageConfig) -> None:
    """Hold an advantage function to what the stage relies on.

    It returns finite numbers of a right shape and changes nothing of what it is given; scores, costs and pads that do
    not count have no influence, NaN among them; of two answers that differ in their score alone the better has no
    smaller advantage; and groups of equal scores get 0, when the options say that groups are compared.

    Args:
        function: the function, e.g. ``ADVANTAGES.get("mine")``.
        config: its options.

    Raises:
        AssertionError: it does not; the message says in what.
    """
    groups = _random_groups()
    given = copy.deepcopy(groups)
    advantage_BR = _call(function, groups, config)
    changed = [name for name, value in vars(given).items() if not np.array_equal(value, getattr(groups, name))]
    _require(not changed, f"expected the groups as they were, got other {', '.join(changed)}. Work on copies.")
    _require(
        np.array_equal(advantage_BR, _call(function, _poisoned(groups), config)),
        "expected answers and pads that do not count to have no influence, got other advantages when they are NaN. "
        "Use counts_B and mask_BR, or the (N, G) properties of the groups.",
    )
    _check_order(function, config)
    if config.needs_group:
        equal = replace(
            groups, score_B=np.where(groups.counts_B, 0.1, 0.0), kl_cost_BR=np.zeros_like(groups.kl_cost_BR)
        )
        _require(
            not _call(function, equal, config).any(),
            "expected 0 for groups of equal scores, got something else. Use `centred`, which is exact there.",
        )


def _random_groups() -> AnswerGroups:
    """Four groups; ragged answers, one that does not count, a group with one that does and one with none."""
    rng = np.random.default_rng(0)
    num_rows = 4 * _SIZE
    counts_B = np.ones(num_rows, bool)
    counts_B[[1, 4, 5, 6]] = False
    counts_B[8:12] = False
    mask_BR = (np.arange(_LONGEST) < rng.integers(1, _LONGEST + 1, (num_rows, 1))) & counts_B[:, None]
    return AnswerGroups(
        score_B=np.where(counts_B, rng.normal(size=num_rows), 0.0),
        counts_B=counts_B,
        token_score_BR=None,
        kl_cost_BR=0.01 * rng.normal(size=mask_BR.shape) * mask_BR,
        mask_BR=mask_BR.astype(np.float32),
        group_size=_SIZE,
    )


def _poisoned(groups: AnswerGroups) -> AnswerGroups:
    return replace(
        groups,
        score_B=np.where(groups.counts_B, groups.score_B, np.nan),
        kl_cost_BR=np.where(groups.mask_BR > 0, groups.kl_cost_BR, np.nan),
    )


def _check_order(function: Advantage, config: AdvantageConfig) -> None:
    """A group of answers of one length without KL, by rising score, and another beside it."""
    groups = replace(
        _random_groups(),
        score_B=np.concatenate([np.linspace(-1.0, 2.0, _SIZE)] * 4),
        counts_B=np.ones(4 * _SIZE, bool),
        kl_cost_BR=np.zeros((4 * _SIZE, _LONGEST)),
        mask_BR=np.ones((4 * _SIZE, _LONGEST), np.float32),
    )
    first_G = _call(function, groups, config)[:_SIZE, 0]
    _require(
        (np.diff(first_G) >= 0).all() and first_G[-1] > first_G[0],
        f"expected a larger advantage for a better score, got {first_G.tolist()} for scores from worst to best. "
        "Check the sign.",
    )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _call(function: Advantage, groups: AnswerGroups, config: AdvantageConfig) -> np.ndarray:
    return spread(function(groups, config), groups, path=f"advantage {config.kind}")
