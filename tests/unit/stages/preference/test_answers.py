from __future__ import annotations

import numpy as np

from llmstack.stages.preference.answers import AnswerScorer, Scored, cached_scores, weights_hash
from tests.helpers.cells import tensors
from tests.unit.data.test_answer_rows import answers, pairs


def first_tokens(tokens, positions, segments, targets, labels, rows):
    """In place of a model: the sum of the ids of an answer."""
    mine, labels = rows.asnumpy(), labels.asnumpy()
    (found,) = tensors([np.array([labels[mine == row].sum() for row in range(len(tokens))], np.float32)])
    return found


def test_every_sample_is_scored_once_whatever_its_length():
    rows = pairs([(2, 3), (5, 2), (2, 2), (6, 3), (3, 3)], (3, 6))
    scored = AnswerScorer(rows, batch_rows=2).score(first_tokens, 4)
    # the last token of answer k is 100 k + its place
    assert scored.logp.tolist() == [[101, 202], [304, 401], [501, 601], [705, 802]]
    assert scored.mismatched.tolist() == []


def test_single_answers_are_scored_with_other_prompts_too():
    rows = answers([([1, 2], [10, 20]), ([3], [30]), ([4], [40])], (4,))
    scored = AnswerScorer(rows, batch_rows=2).score(first_tokens, 3)
    assert scored.logp[:, 0].tolist() == [30, 30, 40]
    assert scored.mismatched.tolist() == [30, 40, 30]


def test_scores_are_made_once_for_a_key():
    calls = []

    def make():
        calls.append(1)
        return Scored(np.full((2, 2), len(calls), np.float32), np.zeros(0, np.float32))

    first, again = (cached_scores({"test": "once"}, make) for _ in range(2))
    assert (first.logp == again.logp).all() and len(calls) == 1
    assert (cached_scores({"test": "other"}, make).logp == 2).all()


def test_the_hash_follows_the_weights_and_not_the_tokenizer(tmp_path):
    weights, tokenizer = tmp_path / "model.safetensors", tmp_path / "tokenizer.json"
    weights.write_bytes(b"a")
    (tmp_path / "config.json").write_text("{}")
    before = weights_hash(tmp_path)
    tokenizer.write_text("{}")
    (tmp_path / "adapter").mkdir()
    assert weights_hash(tmp_path) == before
    weights.write_bytes(b"bb")
    assert weights_hash(tmp_path) != before
    assert weights_hash(weights) != before
