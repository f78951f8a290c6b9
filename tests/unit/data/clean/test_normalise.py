from __future__ import annotations

import pytest

from llmstack.config.clean import NormaliseConfig
from llmstack.data.clean.normalise import Normalise
from tests.unit.data.clean.corpus import outcome

OFF = {"form": None, "repair_encoding": False, "remove_control_characters": False, "tidy_whitespace": False}


def normalised(text: str, **options):
    return outcome(Normalise(NormaliseConfig(kind="normalise", **options), seed=0), text)


@pytest.mark.parametrize(
    ("option", "text", "wanted"),
    [
        ({"form": "NFC"}, "cafe\u0301", "caf\u00e9"),
        ({"form": "NFKC"}, "\ufb01ne \uff21", "fine A"),
        ({"repair_encoding": True}, "schÃ¶n, donâ€™t", "schön, don’t"),
        ({"remove_control_characters": True}, "a\x00b\ufeffc\u200bd\u00ade\x7f", "abcde"),
        ({"remove_control_characters": True}, "a\r\nb\rc\u2028d\x0be\x85f", "a\nb\nc\nd\ne\nf"),
        ({"tidy_whitespace": True}, "\n\na\u00a0b  \n\n\n\n\tc\u3000d\t\n", "a b\n\n\tc d"),
    ],
)
def test_each_rewriting_does_its_own_job_alone(option, text, wanted):
    assert normalised(text, **(OFF | option)).text == wanted
    assert normalised(text, **OFF).text == text


@pytest.mark.parametrize("text", ["plain text\n\n\tindented", "schön für Ö", "नमस्\u200cते", "naïve café", "a\u200db"])
def test_good_text_stays(text):
    assert normalised(text).text == text
    assert normalised(text).changes == ()


def test_changes_are_named_with_where_they_begin():
    found = normalised("x" * 50 + "\x00 schÃ¶n ")
    assert [(change.what, change.count) for change in found.changes] == [
        ("wrong encoding undone", 1),
        ("control characters", 1),
        ("white space", 1),
    ]
    assert found.changes[0].example.endswith("schön ")
    assert found.text == "x" * 50 + " schön"


def test_a_text_that_is_only_cut_shows_its_end():
    assert normalised("end \n").changes[0].example == "end"
