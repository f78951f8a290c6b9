from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor

from llmstack.data.records import Message, PreferenceRecord
from llmstack.errors import DataError
from llmstack.evaluation import preference
from llmstack.evaluation.preference import LastScorer, preference_accuracy, read_pairs
from llmstack.runtime import compile_count
from tests.helpers.stages import tokenizer, write_jsonl
from tests.tolerances import F32_ATOL

PAIRS = [
    PreferenceRecord("red", "green", "blue", where="a:1"),
    PreferenceRecord("white", "black " * 5, "red", where="a:2"),
    PreferenceRecord("blue", "red", "red", where="a:3"),
]


def alone(model, text, answer):
    """The score of one conversation up to the token that ends the answer, in a batch of its own."""
    ids, mask = tokenizer().encode_chat([Message("user", text), Message("assistant", answer)])
    ids = ids[: len(mask) - mask[::-1].index(1)]
    row = np.array([ids], np.int32)
    values = model(Tensor(row), Tensor(np.arange(row.size, dtype=np.int32)[None]), Tensor(row * 0 + 1))
    return float(values.asnumpy()[0, -1])


def test_scores_accuracy_and_margin(reward, monkeypatch):
    """Two lengths, a batch that is not full, and a tie that counts half."""
    monkeypatch.setattr(preference, "BATCH_TOKENS", 64)
    report = preference_accuracy(reward, PAIRS)
    chosen = np.array([alone(reward.model, p.prompt, p.chosen) for p in PAIRS])
    rejected = np.array([alone(reward.model, p.prompt, p.rejected) for p in PAIRS])
    np.testing.assert_allclose([row["chosen"] for row in report.rows], chosen, rtol=0, atol=F32_ATOL)
    np.testing.assert_allclose([row["rejected"] for row in report.rows], rejected, rtol=0, atol=F32_ATOL)
    right = sum(good > bad for good, bad in zip(chosen[:2], rejected[:2], strict=True))
    assert (report.numbers["pairs"], report.numbers["accuracy"]) == (3, (right + 0.5) / 3)
    np.testing.assert_allclose(report.numbers["margin"], (chosen - rejected).mean(), rtol=0, atol=F32_ATOL)
    np.testing.assert_allclose(report.numbers["score_chosen"], chosen.mean(), rtol=0, atol=F32_ATOL)


def test_turning_the_pairs_round_turns_the_numbers_round(reward):
    turned = [PreferenceRecord(p.prompt, p.rejected, p.chosen, where=p.where) for p in PAIRS]
    one, other = preference_accuracy(reward, PAIRS).numbers, preference_accuracy(reward, turned).numbers
    np.testing.assert_allclose(one["accuracy"] + other["accuracy"], 1.0, rtol=0, atol=F32_ATOL)
    np.testing.assert_allclose(one["margin"], -other["margin"], rtol=0, atol=F32_ATOL)


def test_one_graph_a_length(reward):
    scorer = LastScorer(reward.model)
    compile_count.install()
    before = compile_count.snapshot().graphs
    scorer.score([[1] * length for length in (3, 9, 17, 18, 40)])
    scorer.score([[2] * length for length in (40, 1, 20)])
    assert compile_count.snapshot().graphs - before == 3


def test_rows(tmp_path):
    good = {"prompt": "p", "chosen": "c", "rejected": "r"}
    assert read_pairs(write_jsonl(tmp_path / "a.jsonl", [good]), {}) == [PreferenceRecord("p", "c", "r")]
    user, chosen = {"role": "user", "content": "p"}, {"role": "assistant", "content": "c"}
    talks = {"better": [user, chosen], "rejected": [user, {**chosen, "content": "r"}]}
    found = read_pairs(write_jsonl(tmp_path / "b.jsonl", [talks]), {"chosen": "better"})
    assert [(pair.prompt_messages, pair.chosen, pair.rejected) for pair in found] == [
        ((Message("user", "p"),), "c", "r")
    ]
    with pytest.raises(DataError, match="a.jsonl:1: expected field 'rejected', .* --field rejected=NAME"):
        read_pairs(write_jsonl(tmp_path / "a.jsonl", [{"prompt": "p", "chosen": "c"}]), {})


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (PreferenceRecord("white " * 80, "a", "b", where="a:9"), "a:9: expected prompt and answer within the model's"),
        (PreferenceRecord("x", "a<|im_end|>", "b", where="a:9"), "a:9: expected assistant text without control tokens"),
    ],
)
def test_pairs_that_do_not_fit_are_named(reward, pair, message):
    with pytest.raises(DataError, match=message):
        preference_accuracy(reward, [*PAIRS, pair])
