from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.data.clean import identifiers
from tests.unit.data.clean.corpus import LEFT_ALONE, PERSONAL

FINDERS = {
    "e-mail address": identifiers.find_emails,
    "account number": identifiers.find_ibans,
    "card number": identifiers.find_cards,
    "IP address": identifiers.find_ips,
    "phone number": lambda text: identifiers.find_phones(text, ("US", "GB")),
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in PERSONAL.items() for text in texts])
@pytest.mark.parametrize("frame", ["{}", "so {}.", "({})", "a {}, b", "see: {}\nnext"])
def test_each_kind_is_found_whole_whatever_is_around_it(kind, text, frame):
    full = frame.format(text)
    assert {full[start:end].strip("()") for start, end in FINDERS[kind](full)} == {text.strip("()")}


@pytest.mark.parametrize("text", LEFT_ALONE)
@pytest.mark.parametrize("kind", FINDERS)
def test_what_only_looks_alike_is_left_alone(kind, text):
    assert FINDERS[kind](text) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("e-mail address", "a@b, a@b.1, @b.com, a@.com, .@b.com"),
        ("IP address", "256.1.1.1 1.2.3 1.2.3.4.5 10.0.0.1 169.254.0.1 fe80::1 ::1 12:30:45 v8.8.8.8"),
        ("card number", "0000 0000 0000 0000, 4222222222222222222222, 1.4111111111111111, 9111111111111111"),
        ("account number", "DE89 3704 0044 0532 0130 01, AB12 CDEF, GB82 WEST 1234"),
        ("phone number", "1234567, 2023-01-02 12:30, +1 000 000 0000, 555-0100"),
    ],
)
def test_wrong_numbers_are_left_alone(kind, text):
    assert FINDERS[kind](text) == []


def test_capitals_behind_an_account_number_are_not_part_of_it():
    text = "DE89 3704 0044 0532 0130 00 AND MORE"
    assert [text[start:end] for start, end in identifiers.find_ibans(text)] == ["DE89 3704 0044 0532 0130 00"]


def test_check_digits_by_hand():
    # from the right, every second one doubled: 3 + 2 + 7 + (1+6) + 9 + 6 + 7 + 4 + 9 + (1+8) + 7
    assert identifiers.luhn_sum("79927398713") == 70
    assert identifiers.iban_remainder("GB82WEST12345698765432") == 1


@given(st.text("0123456789", min_size=12, max_size=18))
def test_exactly_one_last_digit_is_right(digits):
    assert len([last for last in "0123456789" if identifiers.luhn_sum(digits + last) % 10 == 0]) == 1


def test_national_numbers_need_their_country():
    assert identifiers.find_phones("030 901820", ("US",)) == []
    assert identifiers.find_phones("030 901820", ("DE",)) == [(0, 10)]
    assert identifiers.find_phones("+49 30 901820", ()) == [(0, 13)]


SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)).map(lambda pair: (pair[0], sum(pair))), max_size=6)


@given(SPANS, SPANS)
def test_spans_never_overlap_and_the_first_kind_wins(one, other):
    found = identifiers.without_overlaps([("one", one), ("other", other)])
    assert found == sorted(found)
    assert all(before[1] <= after[0] for before, after in zip(found, found[1:], strict=False))
    for start, end in other:
        covered = any(a < end and start < b for a, b, _ in found)
        assert covered  # taken itself, or in the way of one that was
    assert {(a, b) for a, b, kind in found if kind == "one"} == {
        (a, b) for a, b, _ in identifiers.without_overlaps([("one", one)])
    }
