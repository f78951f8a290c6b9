from __future__ import annotations

import pytest

from llmstack.data.records import LabelledRecord, PreferenceRecord, PromptRecord, ResponseRecord, TextRecord
from llmstack.errors import DataError
from llmstack.stages.preference.samples import prompt_table
from tests.helpers import stages as tiny


def table(records, count=9, longest=60):
    return prompt_table(records, tiny.tokenizer(), count=count, longest=longest, path="stages.policy.samples")


def test_each_prompt_is_taken_once_from_records_of_any_kind():
    records = [
        PreferenceRecord("red", "a", "b"),
        PreferenceRecord("red", "a", "c"),
        LabelledRecord("green", "a", True),
        ResponseRecord("blue", "known"),
        PromptRecord("black", "right"),
    ]
    found = table(records)
    assert found.prompts == ("red", "green", "blue", "black")
    assert found.answers == (None, None, "known", "right")
    assert table(records, count=2).prompts == ("red", "green")
    assert table(records, count=0) is None


def test_a_prompt_without_room_is_left_out_with_a_warning(caplog, monkeypatch):
    import logging

    monkeypatch.setattr(logging.getLogger("llmstack"), "propagate", True)
    records = [PreferenceRecord("red " * 30, "a", "b"), PreferenceRecord("red", "a", "b")]
    assert table(records, longest=30).prompts == ("red",)
    assert "stages.policy.samples: 1 of 2 prompts are left out, longer than the 30 tokens" in caplog.text
    assert table(records, longest=0) is None


def test_records_without_a_prompt_are_refused():
    with pytest.raises(DataError, match="for samples, got a text record"):
        table([TextRecord("a")])
