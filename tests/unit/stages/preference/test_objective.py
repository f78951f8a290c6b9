from __future__ import annotations

import numpy as np

from llmstack.config.preference import SigmoidConfig
from llmstack.losses.preference import SigmoidLoss
from llmstack.models.checkpoint_io import build_causal
from llmstack.stages.preference.inputs import AnswerInputs
from llmstack.stages.preference.objective import AnswerLogProbs, PreferenceObjective
from tests.helpers import stages as tiny
from tests.helpers.cells import eager, run
from tests.reference import preference as oracle
from tests.reference.logprob import token_logprobs
from tests.tolerances import F32_ATOL, LOGP_MATCH_ATOL
from tests.unit.data.test_answer_rows import answers, pairs

MODEL = build_causal(tiny.model_config(vocab_size=800), seed=4)


def by_hand(batch):
    """Log-probability of each answer from all logits, a row at a time without padding."""
    found = []
    for row in range(len(batch["tokens"])):
        end = int(batch["last"][row]) + 1
        cut = {name: batch[name][row : row + 1, :end] for name in ("tokens", "positions", "segments")}
        logits = run(MODEL, *cut.values())[0].astype(np.float64)
        labels = cut["tokens"][0, 1:]
        found.append(token_logprobs(logits[:-1], labels)[end - 1 - batch["answer"][row] :].sum())
    return np.array(found)


def test_an_answer_is_the_sum_of_its_tokens_and_the_prompt_counts_nothing():
    rows = answers([([1, 2, 3], [4, 5]), ([6], [7, 8, 9]), ([1, 2], [3])], (6,))
    batch = rows.take(np.array([0, 1, 2]))
    with eager():
        logp = run(AnswerLogProbs(MODEL), *AnswerInputs(rows, batch_rows=3)(batch).values())
        np.testing.assert_allclose(logp, by_hand(batch), atol=LOGP_MATCH_ATOL, rtol=0)


def test_the_objective_is_its_share_of_the_mean():
    rows = pairs([(2, 3), (3, 2)], (3,))
    batch = rows.take(np.array([0, 1]))
    ref_logp, good = np.array([-4.0, -5.0, -6.0, -7.0]), rows.good(np.array([0, 1]))
    inputs = list(AnswerInputs(rows, batch_rows=2)(batch).values())
    loss = SigmoidLoss(SigmoidConfig(name="sigmoid", beta=0.5))
    with eager():
        found = run(PreferenceObjective(MODEL, loss), 0.25, *inputs, ref_logp, batch["answer"] * 1.0, good, 0.0)
        logp = by_hand(batch)
    cost = oracle.sigmoid(logp[:2], logp[2:], ref_logp[:2], ref_logp[2:], beta=0.5)
    reward = 0.5 * (logp - ref_logp)
    expected = (
        cost.sum(),
        (reward[:2] > reward[2:]).sum(),
        reward[:2].sum(),
        reward[2:].sum(),
        logp[:2].sum(),
        logp[2:].sum(),
        (logp - ref_logp).sum(),
    )
    np.testing.assert_allclose(np.ravel(found), np.array(expected) / 4, atol=LOGP_MATCH_ATOL, rtol=F32_ATOL)
