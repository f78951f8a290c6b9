from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.data import ArithmeticConfig
from llmstack.data.arithmetic import Arithmetic, split_of
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


def test_order_and_limit_follow_the_seed():
    assert sums("eval", limit=5) == sums("eval")[:5]
    assert sums("eval", seed=2) != sums("eval") and set(sums("eval", seed=2)) == set(sums("eval"))
    assert max(len(record.prompt) for record in sums("train", digits=1)) == len("9+9=")


def test_it_is_registered_with_its_options():
    assert SOURCES.get("arithmetic") is Arithmetic
    with pytest.raises(ValidationError, match="less than or equal to 3"):
        sums("train", digits=4)
