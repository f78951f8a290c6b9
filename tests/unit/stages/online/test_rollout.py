from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from llmstack.rl.rewards_api import RewardBatch
from llmstack.stages.online.rollout import assemble

# two prompts of 2 and 3 tokens in a bucket of 3; answers of 2 (ended) and 3 (cut off) tokens in 3 places
PROMPTS = {
    "tokens": np.array([[0, 11, 12], [21, 22, 23]], np.int32),
    "lengths": np.array([2, 3], np.int32),
}
ANSWERS = SimpleNamespace(
    tokens=np.array([[5, 1, 0], [6, 7, 8]], np.int32),
    lengths=np.array([2, 3], np.int32),
    finished=np.array([True, False]),
    logp=np.zeros((2, 3), np.float32),
)
TEXTS = RewardBatch(prompts=["a", "b"], responses=["c", "d"], answers=[None, None])


def rollout():
    return assemble(PROMPTS, ANSWERS, TEXTS)


def test_prompts_and_answers_stand_side_by_side():
    made = rollout()
    assert made.tokens_BT.tolist() == [[0, 11, 12, 5, 1, 0], [21, 22, 23, 6, 7, 8]]
    assert made.positions_BT.tolist() == [[0, 0, 1, 2, 3, 0], [0, 1, 2, 3, 4, 5]]
    assert made.segments_BT.tolist() == [[0, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]
    assert made.mask_BR.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert made.prompt_len == 3
    assert made.num_tokens == 10


def test_the_last_token_is_found_by_length_not_by_pad_id():
    assert rollout().last_B.tolist() == [4, 5]


def test_a_state_is_the_position_before_its_token():
    made = rollout()
    assert made.states(2).tolist() == [2, 3, 4, 8, 9, 10]
    assert made.states(2, after_last=True).tolist() == [2, 3, 4, 5, 8, 9, 10, 11]
    tokens = made.tokens_BT.reshape(-1)
    assert tokens[made.states(2) + 1].tolist() == made.response_BR.reshape(-1).tolist()


def test_inputs_of_some_rows():
    made = rollout()
    assert made.inputs(np.array([1]))["tokens"].tolist() == [[21, 22, 23, 6, 7, 8]]
    assert list(made.inputs()) == ["tokens", "positions", "segments"]
