from __future__ import annotations

import pytest

from llmstack.data.stdlib.verbs import BASE_FORM, VERBS, third_person


@pytest.mark.parametrize(
    ("base", "third"),
    [
        ("return", "returns"),
        ("try", "tries"),
        ("display", "displays"),
        ("pass", "passes"),
        ("fix", "fixes"),
        ("push", "pushes"),
        ("match", "matches"),
        ("do", "does"),
        ("go", "goes"),
        ("have", "has"),
        ("quit", "quits"),
        ("byte-compile", "byte-compiles"),
    ],
)
def test_third_person(base: str, third: str) -> None:
    assert third_person(base) == third


def test_forms_are_one_to_one() -> None:
    assert len(BASE_FORM) == len(VERBS) > 500
    assert all(verb == verb.lower() for verb in VERBS)


def test_no_third_person_form_is_a_base_form() -> None:
    assert not set(BASE_FORM) & VERBS
