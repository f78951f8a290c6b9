from __future__ import annotations

import pytest

from llmstack.config.data import StdlibConfig, StdlibSignaturesConfig
from llmstack.data.records import PreferenceRecord, Record, ResponseRecord, TextRecord
from llmstack.data.stdlib.sources import StdlibDocs, StdlibStylePairs, StdlibSummaries, shuffled
from llmstack.data.stdlib.style import is_pep257
from llmstack.registry import SOURCES

NAMES = {"stdlib_docs": StdlibDocs, "stdlib_summaries": StdlibSummaries, "stdlib_style_pairs": StdlibStylePairs}


def read(name: str, split: str, *, seed: int = 1, limit: int | None = None) -> list[Record]:
    config = SOURCES.config(name)(source=name, split=split, limit=limit)
    return NAMES[name](config, seed=seed).records()


@pytest.mark.parametrize("name", NAMES)
def test_registered_under_its_name(name: str) -> None:
    assert SOURCES.get(name) is NAMES[name]
    assert issubclass(SOURCES.config(name), StdlibConfig)


@pytest.mark.parametrize("name", NAMES)
def test_seed_decides_the_order_and_limit_keeps_its_beginning(name: str) -> None:
    whole = read(name, "eval")
    assert read(name, "eval") == whole
    assert read(name, "eval", limit=7) == whole[:7]
    assert read(name, "eval", seed=2) != whole
    assert all(record.where for record in whole)


@pytest.mark.parametrize(("name", "kind"), [*zip(NAMES, (TextRecord, ResponseRecord, PreferenceRecord), strict=True)])
def test_kind_of_record(name: str, kind: type) -> None:
    assert {type(record) for record in read(name, "policy", limit=50)} == {kind}


def test_docs_train_and_policy_are_the_same_and_eval_is_apart() -> None:
    train, policy, held_out = (
        {record.text for record in read("stdlib_docs", split)} for split in ("train", "policy", "eval")
    )
    assert train == policy
    assert not train & held_out
    assert sum(map(len, train)) > 1_000_000
    assert sum(map(len, held_out)) > 100_000


def test_docs_train_holds_no_summary_of_the_eval_split() -> None:
    trained = {record.text.split("\n\n")[0] for record in read("stdlib_docs", "train")}
    leaked = [record for record in read("stdlib_summaries", "eval") if record.response in trained]
    # a class or module may be described by the very words of a function
    assert len(leaked) < 10


def test_style_of_the_authors_leaves_room() -> None:
    summaries = read("stdlib_summaries", "eval")
    rate = sum(is_pep257(record.response) for record in summaries) / len(summaries)
    assert 0.3 < rate < 0.65


def test_shuffled_without_limit_keeps_all() -> None:
    records = [TextRecord(str(number)) for number in range(9)]
    found = shuffled(records, seed=3, limit=None)
    assert found != records
    assert sorted(record.text for record in found) == [str(number) for number in range(9)]


def test_long_signatures_can_be_left_out() -> None:
    config = StdlibSignaturesConfig(source="stdlib_summaries", split="eval", max_prompt_chars=40)
    short = StdlibSummaries(config, seed=1).records()
    assert 0 < len(short) < len(read("stdlib_summaries", "eval"))
    assert max(len(record.prompt) for record in short) <= 40


def test_the_fingerprint_is_that_of_the_library() -> None:
    sources = [NAMES[name](SOURCES.config(name)(source=name, split="eval"), seed=1) for name in NAMES]
    assert len({source.fingerprint() for source in sources}) == 1
