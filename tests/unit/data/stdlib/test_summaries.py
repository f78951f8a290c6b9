from __future__ import annotations

import pytest

from llmstack.data.stdlib import summaries
from llmstack.data.stdlib.reader import Documented
from llmstack.data.stdlib.summaries import read_summaries, split_of


def function(name: str, text: str, signature: str | None = None) -> Documented:
    return Documented("function", name, signature or f"def {name}():", text, "m.py:1")


def read(monkeypatch: pytest.MonkeyPatch, *documented: Documented) -> dict[str, list[tuple[str, str]]]:
    monkeypatch.setattr(summaries, "read_stdlib", lambda: documented)
    found = read_summaries.__wrapped__()
    return {split: [(item.name, item.text) for item in items] for split, items in found.items()}


def name_in(split: str, number: int = 0) -> str:
    return [name for name in (f"name{i}" for i in range(400)) if split_of(name) == split][number]


def test_split_depends_on_the_bare_name() -> None:
    assert len({split_of(name) for name in ("open_file", "_open_file", "openFile", "OPENFILE")}) == 1
    assert split_of("__init__") == split_of("__repr__") == "train"
    assert {split_of(f"name{i}") for i in range(100)} == {"train", "policy", "eval"}


def test_first_paragraph_is_kept_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    name = name_in("train")
    found = read(monkeypatch, function(name, "Returns the   value \nof x\n\nMore text."))
    assert found["train"] == [(name, "Returns the   value\nof x")]


def test_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    name = name_in("train")
    found = read(
        monkeypatch,
        function(name, ">>> example()"),
        function(name, "---"),
        function(name, "x" * 401),
        function(name, "Fine.", signature=f"def {name}({'x' * 160}):"),
        Documented("class", name, f"class {name}:", "Class text.", "m.py:1"),
    )
    assert found == {"train": [], "policy": [], "eval": []}


def test_same_sample_once_and_same_wording_on_one_side_only(monkeypatch: pytest.MonkeyPatch) -> None:
    train, policy, held_out = name_in("train"), name_in("policy"), name_in("eval")
    found = read(
        monkeypatch,
        function(held_out, "Close the  file."),
        function(held_out, "Something new."),
        function(policy, "something new"),
        function(train, "close the file"),
        function(train, "close the file"),
    )
    assert found == {"train": [(train, "close the file")], "policy": [(policy, "something new")], "eval": []}


def test_splits_of_this_python_do_not_leak() -> None:
    found = read_summaries()
    prompts = {split: {item.signature for item in items} for split, items in found.items()}
    wordings = {split: {" ".join(item.text.lower().split()) for item in items} for split, items in found.items()}
    for one, other in (("train", "policy"), ("train", "eval"), ("policy", "eval")):
        assert not prompts[one] & prompts[other]
        assert not wordings[one] & wordings[other]
    total = sum(map(len, found.values()))
    assert 0.6 < len(found["train"]) / total < 0.8
    assert len(prompts["eval"]) >= 400
    assert len(prompts["policy"]) >= 400
