from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from llmstack.config.grpo import AdvantageConfig, GrpoAdvantageConfig, ReinforcePpConfig
from llmstack.errors import UserError
from llmstack.registry import ADVANTAGES
from llmstack.rl.advantages import AnswerGroups, dr_grpo, grpo, has_spread, reinforce_pp, rloo, spread
from tests.reference import advantages as oracle
from tests.tolerances import EXACT, F32_ATOL, F64_ATOL

GRPO = GrpoAdvantageConfig(kind="grpo")
PLAIN = AdvantageConfig(kind="rloo")


def groups(scores, *, size, counts=None, cost=None, mask=None):
    scores = np.asarray(scores, np.float64)
    counts = np.ones(len(scores), bool) if counts is None else np.asarray(counts, bool)
    mask = np.ones((len(scores), 2)) if mask is None else np.asarray(mask, np.float64)
    cost = np.zeros(mask.shape) if cost is None else np.asarray(cost, np.float64)
    return AnswerGroups(scores, counts, None, cost, mask * counts[:, None], size)


def random_groups(seed):
    """Five groups of four; costs, ragged masks, answers that do not count (one whole group, one all but one)."""
    rng = np.random.default_rng(seed)
    mask = np.arange(6) < rng.integers(1, 7, (20, 1))
    counts = rng.random(20) < 0.8
    counts[4:8], counts[8:12] = False, [True, False, False, False]
    scores = rng.normal(size=20)
    scores[~counts] = np.nan
    return groups(scores, size=4, counts=counts, cost=0.1 * rng.normal(size=(20, 6)), mask=mask)


def test_grpo_by_hand():
    # scores 0, 0, 1, 1: mean 1/2, std with n - 1: sqrt(4 * 1/4 / 3) = 0.57735; with n: 1/2
    got = grpo(groups([0, 0, 1, 1], size=4), GRPO.model_copy(update={"epsilon": 1e-12}))
    np.testing.assert_allclose(got, np.array([-1, -1, 1, 1]) * 0.5 * np.sqrt(3), atol=F32_ATOL)
    got = grpo(groups([0, 0, 1, 1], size=4), GRPO.model_copy(update={"ddof": 0, "epsilon": 1e-12}))
    np.testing.assert_allclose(got, [-1, -1, 1, 1], atol=F32_ATOL)


def test_rloo_and_dr_grpo_by_hand():
    # returns 3, 0, 0 (the first scored 4 and its tokens cost 1): others' means 0, 1.5, 1.5; mean of all 1
    made = groups([4, 0, 0], size=3, cost=[[0.5, 0.5], [0, 0], [0, 0]])
    np.testing.assert_allclose(rloo(made, PLAIN), [3, -1.5, -1.5], atol=F64_ATOL)
    np.testing.assert_allclose(dr_grpo(made, PLAIN), [2, -1, -1], atol=F64_ATOL)


def test_reinforce_pp_by_hand():
    # first answer: score 1 at its second token, costs 0.2 and 0.4: returns 0.4, 0.6; second: score 0: 0, 0
    made = groups([1, 0], size=2, cost=[[0.2, 0.4], [0, 0]])
    values = np.array([[0.4, 0.6], [0, 0]])
    expected = (values - 0.25) / np.sqrt(((values - 0.25) ** 2).mean() + 1e-8)
    got = reinforce_pp(made, ReinforcePpConfig(kind="reinforce_pp"))
    np.testing.assert_allclose(got, expected, atol=F32_ATOL)


@pytest.mark.parametrize("seed", range(3))
def test_each_matches_its_oracle(seed):
    made = random_groups(seed)
    facts = (made.score_B, made.kl_cost_BR, made.mask_BR, made.counts_B, 4)
    for ddof in (0, 1):
        got = grpo(made, GRPO.model_copy(update={"ddof": ddof}))
        wanted = oracle.grpo(made.score_B, made.counts_B, 4, ddof=ddof, epsilon=GRPO.epsilon)
        np.testing.assert_allclose(got, wanted, atol=F64_ATOL)
    np.testing.assert_allclose(dr_grpo(made, PLAIN), oracle.dr_grpo(*facts), atol=F64_ATOL)
    np.testing.assert_allclose(rloo(made, PLAIN), oracle.rloo(*facts), atol=F64_ATOL)
    for baseline in ("none", "group"):
        config = ReinforcePpConfig(kind="reinforce_pp", baseline=baseline)
        np.testing.assert_allclose(
            reinforce_pp(made, config), oracle.reinforce_pp(*facts, baseline=baseline), atol=F32_ATOL
        )


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "reinforce_pp"])
def test_groups_of_equal_scores_give_exactly_0(name):
    """0.1 has no exact mean in binary: a plain subtraction would leave a speck that a deviation blows up."""
    made = groups([0.1] * 6 + [0.7] * 6, size=6, counts=[True] * 11 + [False])
    options = {"kind": name} | ({"baseline": "group"} if name == "reinforce_pp" else {})
    config = (ADVANTAGES.config(name) or AdvantageConfig).model_validate(options)
    got = spread(ADVANTAGES.get(name)(made, config), made, path="here")
    np.testing.assert_allclose(got, 0.0, atol=EXACT)


def test_a_score_that_steps_earn_is_paid_where_it_is_earned():
    # scores 1 and 0; of the 1, 0.4 belongs to the first token: returns 1, 0.6 and 0, 0
    made = groups([1, 0], size=2)
    early = dataclasses.replace(made, token_score_BR=np.array([[0.4, 0.0], [0.0, 0.0]]))
    values = np.array([[1.0, 0.6], [0, 0]])
    got = reinforce_pp(early, ReinforcePpConfig(kind="reinforce_pp"))
    np.testing.assert_allclose(got, (values - 0.4) / np.sqrt(((values - 0.4) ** 2).mean() + 1e-8), atol=F32_ATOL)
    np.testing.assert_array_equal(rloo(early, PLAIN), rloo(made, PLAIN))


def test_what_does_not_count_changes_nothing_and_gets_0():
    counts = [True, True, False, True]
    one = groups([1, 2, 5, 4], size=4, counts=counts)
    other = groups([1, 2, np.nan, 4], size=4, counts=counts)
    for function, config in ((grpo, GRPO), (dr_grpo, PLAIN), (rloo, PLAIN)):
        got = function(one, config)
        assert got[2] == 0
        np.testing.assert_array_equal(got, function(other, config))


def test_a_group_with_one_answer_says_nothing():
    made = groups([5, 0, 1, 2], size=2, counts=[True, False, True, True])
    assert not has_spread(made.score_NG, made.counts_NG)[0]
    for function, config in ((grpo, GRPO), (dr_grpo, PLAIN), (rloo, PLAIN)):
        assert function(made, config)[:2].tolist() == [0, 0]
        assert function(made, config)[3] > 0


def test_a_bad_result_of_an_own_function_is_named():
    made = groups([0, 1], size=2)
    with pytest.raises(UserError, match=r"mine: expected shape \(2,\) or \(2, 2\), got \(3,\). Return"):
        spread(np.zeros(3), made, path="mine")
    with pytest.raises(UserError, match="mine: expected finite numbers"):
        spread(np.array([np.nan, 0]), made, path="mine")
    padded = groups([0, 1], size=2, mask=[[1, 0], [1, 1]])
    assert spread(np.array([2.0, 3.0]), padded, path="mine").tolist() == [[2, 0], [3, 3]]
