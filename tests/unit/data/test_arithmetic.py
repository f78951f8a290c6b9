from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.data import ArithmeticConfig
from llmstack.data import arithmetic
from llmstack.data.arithmetic import Arithmetic, split_of, written_sum
from llmstack.registry import SOURCES

SPLITS = ("train", "policy", "eval")


def sums(split, *, seed=1, **options):
    config = ArithmeticConfig.model_validate({"source": "arithmetic", "split": split, **options})
    return Arithmetic(config, seed=seed).records()


def test_every_sum_is_right_and_in_one_split():
    found = {split: {record.prompt for record in sums(split)} for split in SPLITS}
    assert sum(map(len, found.values())) == len(set.union(*found.values())) == 100 * 100
    for split in SPLITS:
        for record in sums(split):
            a, b = map(int, record.prompt.removesuffix("=").split("+"))
            assert int(record.response) == a + b
            assert split_of(a, b) == split_of(b, a) == split


def test_the_splits_are_what_they_were():
    """They are part of every figure that names them."""
    assert [split_of(a, b) for a, b in ((0, 0), (1, 2), (12, 7), (99, 99))] == ["train", "policy", "eval", "policy"]
    assert {split: len(sums(split)) for split in SPLITS} == {"train": 4130, "policy": 4409, "eval": 1461}


def test_forgotten_carries_by_hand(monkeypatch):
    assert written_sum(58, 67, forgotten_carries=0.0) == 125
    monkeypatch.setattr(arithmetic, "_share", lambda text: 0.0)
    # 8 + 7 is 5, 5 + 6 is 1, and no carry is written
    assert written_sum(58, 67, forgotten_carries=0.5) == 15
    assert written_sum(12, 7, forgotten_carries=0.5) == 19
    # only the second carry is remembered
    monkeypatch.setattr(arithmetic, "_share", lambda text: float(text.endswith("@10")))
    assert written_sum(58, 67, forgotten_carries=0.5) == 115


def test_so_many_carries_are_forgotten():
    wrong = [
        r for r in sums("train", forgotten_carries=0.5) if int(r.response) != sum(map(int, r.prompt[:-1].split("+")))
    ]
    # about 30 % of the sums have no carry, 45 % have one, 25 % have two
    assert 0.35 < len(wrong) / len(sums("train")) < 0.5
    assert {r.prompt for r in wrong} <= {r.prompt for r in sums("train")}
    assert sums("eval", forgotten_carries=0.5) == sums("eval", forgotten_carries=0.5) != sums("eval")


def test_order_and_limit_follow_the_seed():
    assert sums("eval", limit=5) == sums("eval")[:5]
    assert sums("eval", seed=2) != sums("eval") and set(sums("eval", seed=2)) == set(sums("eval"))
    assert max(len(record.prompt) for record in sums("train", digits=1)) == len("9+9=")


def test_it_is_registered_with_its_options():
    assert SOURCES.get("arithmetic") is Arithmetic
    with pytest.raises(ValidationError, match="less than or equal to 3"):
        sums("train", digits=4)
