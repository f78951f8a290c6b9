from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.grpo import AdvantageConfig
from llmstack.errors import UserError
from llmstack.registry import ADVANTAGES
from llmstack.testing.advantages import check_advantage


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "reinforce_pp"])
def test_the_built_in_ones_hold(name):
    config = (ADVANTAGES.config(name) or AdvantageConfig).model_validate({"kind": name})
    check_advantage(ADVANTAGES.get(name), config)


def uncounted(groups, config):
    return groups.score_B - groups.score_B.mean()


def raw(groups, config):
    return groups.score_NG.reshape(-1)


def upside_down(groups, config):
    return -groups.return_NG.reshape(-1)


def changing(groups, config):
    groups.score_B[:] = 0
    return np.zeros(len(groups.score_B))


def one_a_group(groups, config):
    return np.zeros(len(groups.score_NG))


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (uncounted, UserError, "finite"),
        (raw, AssertionError, "expected 0 for groups of equal scores"),
        (upside_down, AssertionError, "Check the sign"),
        (changing, AssertionError, "got other score_B"),
        (one_a_group, UserError, r"expected shape \(16,\)"),
    ],
)
def test_what_is_wrong_is_told(function, error, words):
    with pytest.raises(error, match=words):
        check_advantage(function, AdvantageConfig(kind="rloo"))


def test_the_check_would_notice_an_influence_of_what_does_not_count():
    def biased(groups, config):
        return np.nan_to_num(groups.score_B - np.nanmean(groups.score_B))

    with pytest.raises(AssertionError, match="no influence"):
        check_advantage(biased, AdvantageConfig(kind="rloo"))
