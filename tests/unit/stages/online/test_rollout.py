from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from llmstack.rl.rewards_api import RewardBatch
from llmstack.stages.online.rollout import assemble, join

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


def test_some_of_the_answers():
    made = rollout().take(np.array([1, 1, 0]))
    assert made.response_BR.tolist() == [[6, 7, 8], [6, 7, 8], [5, 1, 0]]
    assert made.finished_B.tolist() == [False, False, True]
    assert made.texts.responses == ["d", "d", "c"] and made.texts.prompts == ["b", "b", "a"]


def test_rollouts_of_two_buckets_are_padded_on_the_left():
    short = assemble({"tokens": PROMPTS["tokens"][:1, 1:], "lengths": np.array([2], np.int32)}, one_answer(), TEXT)
    both = join([short, rollout()])
    assert both.tokens_BT.tolist() == [[0, 11, 12, 5, 1, 0], *rollout().tokens_BT.tolist()]
    assert both.positions_BT[0].tolist() == both.positions_BT[1].tolist()
    assert both.segments_BT[0].tolist() == [0, 1, 1, 1, 1, 0]
    assert both.last_B.tolist() == [4, 4, 5] and both.prompt_len == 3
    assert both.texts.responses == ["c", "c", "d"]


TEXT = RewardBatch(prompts=["a"], responses=["c"], answers=[None])


def one_answer():
    return SimpleNamespace(**{name: array[:1] for name, array in vars(ANSWERS).items()})
