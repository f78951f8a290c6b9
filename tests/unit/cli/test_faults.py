from __future__ import annotations

import os

import pytest

from llmstack.cli.faults import report
from llmstack.errors import ConfigError, Problem, UserError


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001
        return raised


def test_all_problems_of_a_recipe_are_listed(capsys):
    assert report(ConfigError([Problem("a", "first", "x.yaml:1"), Problem("b", "second")])) == 2
    assert capsys.readouterr().err == "llmstack: the recipe has 2 problems:\n  a: first (x.yaml:1)\n  b: second\n"


def test_one_problem_is_one_problem(capsys):
    report(ConfigError([Problem("a", "first")]))
    assert capsys.readouterr().err == "llmstack: the recipe has 1 problem:\n  a: first\n"


@pytest.mark.parametrize("error", [UserError("wrong"), ValueError("broken")])
def test_debug_shows_every_traceback(capsys, monkeypatch, error):
    monkeypatch.setenv("LLMSTACK_DEBUG", "1")
    report(caught(error))
    assert "Traceback" in capsys.readouterr().err


def test_without_debug_no_traceback_is_shown(capsys, monkeypatch):
    monkeypatch.delenv("LLMSTACK_DEBUG", raising=False)
    assert report(caught(ValueError("broken\nsecond line"))) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error and "second line" not in error
    assert "ValueError: broken (LLMSTACK_DEBUG=1 shows the traceback)" in error
    assert "test_faults.py:" in error and "(caught)" in error


def test_a_fault_without_message_or_traceback_is_still_named(capsys):
    assert report(ValueError()) == 1
    assert "fault in an unknown place: ValueError (" in capsys.readouterr().err


def test_faults_are_appended_to_the_log(tmp_path):
    report(caught(ValueError("one")), run_folder=tmp_path)
    report(caught(ValueError("two")), run_folder=tmp_path)
    text = (tmp_path / "fault.log").read_text(encoding="utf-8")
    assert "ValueError: one" in text and "ValueError: two" in text


def test_a_log_that_cannot_be_written_hides_nothing(tmp_path, capsys):
    (tmp_path / "fault.log").mkdir()
    report(caught(ValueError("one")), run_folder=tmp_path)
    error = capsys.readouterr().err
    assert "ValueError: one (the traceback could not be written to" in error
    assert os.listdir(tmp_path) == ["fault.log"]


def test_a_run_folder_that_was_never_made_is_not_made_now(tmp_path):
    report(caught(ValueError("one")), run_folder=tmp_path / "runs")
    assert os.listdir(tmp_path) == []


def test_the_place_is_in_llmstack_when_a_library_raised(capsys):
    from llmstack.config.quantity import Units

    try:
        Units(("steps",)).parse(_Unprintable())
    except RuntimeError as error:
        report(error)
    assert "quantity.py:" in capsys.readouterr().err


class _Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_an_exit_keeps_its_status():
    assert report(SystemExit(5)) == 5
    assert report(SystemExit("text")) == 1
