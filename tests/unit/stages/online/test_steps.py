from __future__ import annotations

import dataclasses
import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import TypeAdapter

from llmstack.config.rewards import AnyReward
from llmstack.errors import UserError
from llmstack.rl.rewards_api import RewardBatch
from llmstack.stages.online.rewards import make_reward
from tests.helpers.stages import tokenizer
from tests.tolerances import F32_ATOL
from tests.unit.stages.online.test_rollout import rollout

MODULE = "steps_of_a_test"


@pytest.fixture
def judge(monkeypatch):
    module = types.ModuleType(MODULE)

    def judge(batch, right=1.0):
        module.seen = batch
        return [[right * float("red" in step) for step in steps] for steps in batch.steps]

    module.judge = judge
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


def answers(*responses):
    """A rollout of these texts as the tiny tokenizer has them, an end token behind each."""
    rows = [[*tokenizer().encode(text), tokenizer().eos_id] for text in responses]
    width = max(map(len, rows))
    return dataclasses.replace(
        rollout(),
        response_BR=np.array([row + [0] * (width - len(row)) for row in rows], np.int32),
        mask_BR=np.array([[1] * len(row) + [0] * (width - len(row)) for row in rows], np.float32),
        texts=RewardBatch(prompts=["?"] * len(rows), responses=list(responses), answers=["x"] * len(rows)),
    ), rows


def made(**options):
    config = TypeAdapter(AnyReward).validate_python({"kind": "steps", "function": f"{MODULE}:judge", **options})
    return make_reward(config, SimpleNamespace(context=SimpleNamespace(tokenizer=tokenizer())), "stages.p.reward")


def test_each_score_is_earned_at_the_token_that_ends_its_step(judge):
    rolled, rows = answers("red\n\nblue\n\nred green", "blue red")
    scores = made(aggregate="sum", arguments={"right": 2.0}).score(rolled)
    assert judge.seen.steps == [["red", "blue", "red green"], ["blue red"]]
    assert judge.seen.answers == ["x", "x"]
    np.testing.assert_allclose(scores.score_B, [4.0, 2.0], rtol=0, atol=F32_ATOL)
    for row, ends in ((0, ["red", "red\n\nblue\n\nred green"]), (1, ["blue red"])):
        at = np.flatnonzero(scores.token_score_BR[row])
        assert [tokenizer().decode(rows[row][: place + 1]) for place in at] == ends
    assert scores.metrics == {"reward/steps": 2.0}
    np.testing.assert_allclose(scores.final_score_B, 0.0, atol=F32_ATOL)


def test_the_mean_does_not_pay_for_more_steps(judge):
    rolled, _ = answers("red\n\nred\n\nred", "red")
    np.testing.assert_allclose(made().score(rolled).score_B, [1.0, 1.0], rtol=0, atol=F32_ATOL)


def test_steps_by_a_pattern(judge):
    rolled, _ = answers("red; blue; red")
    np.testing.assert_allclose(made(split=";").score(rolled).score_B, [2 / 3], rtol=0, atol=F32_ATOL)


def test_an_answer_without_steps_or_with_an_unscored_one_is_unscored(judge):
    rolled, _ = answers(" ", "red", "red\n\nblue", "red")
    judge.judge = lambda batch: [[], [1.0], [1.0, None], None]
    scores = made().score(rolled)
    assert scores.scored_B.tolist() == [False, True, False, False]
    assert not scores.token_score_BR[[0, 2, 3]].any()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([[1.0]], r"expected one list of scores for each response \(2\), got 1"),
        (1.0, "got float"),
        ([[1.0], [1.0, 2.0]], r"expected a number for each step of response 1 \(1\), got 2"),
        ([[1.0], ["a"]], "expected a finite number or None as step 0 of score 1"),
        ([None, None], "expected a score for at least one of 2 answers"),
    ],
)
def test_wrong_results(judge, result, message):
    rolled, _ = answers("red", "blue")
    judge.judge = lambda batch: result
    with pytest.raises(UserError, match=rf"stages\.p\.reward: .*{message}"):
        made().score(rolled)


def test_a_function_that_raises(judge):
    def judge_none(batch):
        raise KeyError("no")

    judge.judge = judge_none
    with pytest.raises(UserError, match=r"stages\.p\.reward: expected scores, got KeyError .*test_steps\.py"):
        made().score(answers("red")[0])
