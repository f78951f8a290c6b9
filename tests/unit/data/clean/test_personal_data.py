from __future__ import annotations

import pytest

from llmstack.config.clean import PersonalDataConfig
from llmstack.data.clean.personal_data import PersonalData
from llmstack.errors import DataError
from tests.unit.data.clean.corpus import LEFT_ALONE, PERSONAL, Writer, outcome

MASKS = {
    "e-mail address": "<EMAIL>",
    "account number": "<IBAN>",
    "card number": "<CARD>",
    "IP address": "<IP>",
    "phone number": "<PHONE>",
}


def step(**options) -> PersonalData:
    return PersonalData(PersonalDataConfig(kind="personal_data", **options), seed=0)


def test_precision_and_recall_are_one():
    """Every planted item is masked as its own kind, and nothing else is touched, look-alikes included."""
    writer = Writer(14)
    one = step()
    for kind, items in PERSONAL.items():
        for item in items:
            lines = writer.lines(4)
            decoy = writer.rng.choice(LEFT_ALONE)
            frame = "\n".join([*lines[:2], f"Write to {{}} or so; {decoy}.", *lines[2:]])
            found = outcome(one, frame.replace("{}", item))
            assert found.text == frame.replace("{}", MASKS[kind])
            assert [(change.what, change.count) for change in found.changes] == [(kind, 1)]


def test_plain_text_is_left_alone():
    writer = Writer(15)
    for text in (*LEFT_ALONE, *("\n".join(writer.lines()) for _ in range(30))):
        assert outcome(step(), text).text == text


def test_examples_show_masks_alone():
    text = "first a@example.org then +44 20 7946 0958 and b@example.org"
    found = outcome(step(), text)
    assert found.text == "first <EMAIL> then <PHONE> and <EMAIL>"
    assert [(change.what, change.count, change.example) for change in found.changes] == [
        ("e-mail address", 2, "first <EMAIL> then <PHONE> and <EMAIL>"),
        ("phone number", 1, "first <EMAIL> then <PHONE> and <EMAIL>"),
    ]


def test_kinds_are_left_alone_or_replaced_as_told():
    text = "a@example.org +44 20 7946 0958"
    assert step(email=None).mask(text) == "a@example.org <PHONE>"
    assert step(email="", phone="[number]").mask(text) == " [number]"


def test_a_second_time_nothing_is_found():
    text = " ".join(item for items in PERSONAL.values() for item in items)
    masked = step().mask(text)
    assert step().mask(masked) == masked


def test_an_unknown_country_is_refused():
    with pytest.raises(DataError, match="phone_regions: expected ISO 3166 codes of countries, got UK, XX"):
        step(phone_regions=("UK", "US", "XX"))
