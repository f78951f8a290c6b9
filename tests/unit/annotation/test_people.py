from __future__ import annotations

from pathlib import Path

import pytest

from llmstack.annotation.items import Item
from llmstack.annotation.people import HumanLabels, collect, read_rows, rows_of
from llmstack.config.annotation import HumanConfig
from llmstack.errors import DataError
from tests.helpers.annotation import write_rows

LABELS = ("good", "bad")


@pytest.fixture
def read(here):
    """Writes rows into a file, which is called f, and reads their labels."""

    def collected(rows, task="class", labels=LABELS):
        write_rows("f", rows)
        return collect(read_rows(Path("f")), task, labels)

    return collected


def labels(found):
    return [(said.item.prompt, said.label) for said in found.values()]


def test_rows_of_a_class(read):
    rows = [
        {"prompt": "x", "label": " good "},
        {"text": "y", "label": "bad"},
        {"prompt": "z", "response": "bad"},
        {"prompt": "u", "label": ""},
        {"prompt": "v", "label": None},
        {"prompt": "w", "label": "", "discard": True},
    ]
    found, num_open = read(rows)
    assert labels(found) == [("x", "good"), ("y", "bad"), ("z", "bad"), ("w", None)]
    assert num_open == 2


def test_rows_of_a_response_are_taken_as_they_are(read):
    found, _ = read([{"prompt": "x", "response": " two\nlines "}, {"prompt": "y", "label": "z"}], "response")
    assert labels(found) == [("x", " two\nlines "), ("y", "z")]


def test_rows_of_a_preference(read):
    rows = [{"prompt": "x", "answer_a": "1", "answer_b": "2", "label": "b"},
            {"prompt": "y", "chosen": "1", "rejected": "2"}]  # fmt: skip
    found, _ = read(rows, "preference")
    assert [(said.item.answers, said.label) for said in found.values()] == [(("1", "2"), "b"), (("1", "2"), "a")]


def test_a_preference_is_about_the_answer_whatever_it_is_called(read):
    found, _ = read([{"prompt": "x", "answer_a": "1", "answer_b": "2", "label": "b"}], "preference")
    (said,) = found.values()
    assert said.about(Item("x", ("2", "1"))).label == "a"
    assert said.about(Item("x", ("1", "2"))).label == "b"


def test_a_label_may_be_repeated_and_not_changed(read):
    pair = {"prompt": "x", "answer_a": "1", "answer_b": "2", "label": "b"}
    same = {"prompt": "x", "answer_a": "2", "answer_b": "1", "label": "a"}
    assert len(read([pair, same], "preference")[0]) == 1
    with pytest.raises(DataError, match=r"f:2: expected the label this item has in f:1, 'b', got 'a'. Correct one"):
        read([pair, same | {"label": "b"}], "preference")
    with pytest.raises(DataError, match=r"f:2: .* 'good', got thrown out"):
        read([{"prompt": "x", "label": "good"}, {"prompt": "x", "label": "", "discard": True}])


@pytest.mark.parametrize(
    ("row", "task", "message"),
    [
        ({"prompt": "x", "label": "goood"}, "class", "f:1: expected one of good, bad as label, got 'goood'. Did you"),
        ({"prompt": "x", "label": "A"}, "preference", "expected field 'answer_a', got fields 'prompt', 'label'"),
        (
            {"prompt": "x", "answer_a": "1", "answer_b": "2", "label": "A"},
            "preference",
            "expected one of a, b as label",
        ),
        ({"prompt": "x", "answer_a": "1", "answer_b": "1", "label": "a"}, "preference", "two different answers"),
        ({"prompt": "x"}, "class", "f:1: expected field 'label'"),
        ({"label": "good"}, "class", "f:1: expected field 'prompt'"),
        ({"prompt": "x", "label": 3}, "class", "f:1: expected a string in 'label'"),
        ({"prompt": "x", "label": " "}, "response", "expected a response with some text, got blanks"),
        ({"prompt": "", "label": "good"}, "class", "expected a prompt with some text"),
        ({"prompt": "x", "label": "good", "discard": True}, "class", "expected a label or `discard: true`, got both"),
        ({"prompt": "x", "label": "", "discard": "yes"}, "class", "expected true or false in 'discard', got 'yes'"),
        ({"id": "0" * 16, "prompt": "x", "label": "good"}, "class", "expected the texts that belong to id '0000"),
    ],
)
def test_rows_that_are_wrong(read, row, task, message):
    with pytest.raises(DataError, match=message):
        read([row], task)


def test_labels_can_be_written_and_read_again(read):
    rows = [{"prompt": "x", "label": "good"}, {"prompt": "y", "label": "", "discard": True}]
    found, _ = read(rows)
    assert labels(read(rows_of(found))[0]) == labels(found)


def test_a_file_and_its_names(tmp_path):
    write_rows(tmp_path / "p.jsonl", [{"question": "x", "verdict": "good"}])
    config = HumanConfig(
        kind="human", path=str(tmp_path / "p.jsonl"), fields={"prompt": "question", "label": "verdict"}
    )
    found, _ = HumanLabels(config, "class", LABELS, where="annotators.p").read()
    assert labels(found) == [("x", "good")]
    with pytest.raises(DataError, match="annotators.p.fields: expected names among .*, got lable"):
        HumanLabels(config.model_copy(update={"fields": {"lable": "x"}}), "class", LABELS, where="annotators.p")


def test_files_without_rows(tmp_path):
    assert read_rows(tmp_path / "none.jsonl") == []
    (tmp_path / "blank.jsonl").write_text("\n \n")
    assert read_rows(tmp_path / "blank.jsonl") == []
    (tmp_path / "bad.jsonl").write_text('{"prompt": "x"}\n{"prom')
    with pytest.raises(DataError, match=r"bad.jsonl:2: expected one JSON object, got malformed JSON"):
        read_rows(tmp_path / "bad.jsonl")
