from __future__ import annotations

import pytest

from llmstack import errors


def test_a_problem_is_one_line():
    assert (
        str(errors.Problem("a.b", "expected x, got y. Do z.", "f.yaml:3")) == "a.b: expected x, got y. Do z. (f.yaml:3)"
    )
    assert str(errors.Problem("a.b", "expected x, got y. Do z.")) == "a.b: expected x, got y. Do z."


def test_a_config_error_carries_every_problem():
    problems = [errors.Problem("a", "one"), errors.Problem("b", "two")]
    error = errors.ConfigError(problems)
    assert error.problems == tuple(problems)
    assert str(error) == "a: one\nb: two"


@pytest.mark.parametrize("kind", [errors.ConfigError, errors.DataError, errors.RunFolderError])
def test_what_the_user_can_mend_is_a_user_error_and_a_value_error(kind):
    assert issubclass(kind, errors.UserError)
    assert issubclass(kind, ValueError)


def test_an_interruption_knows_its_signal_and_is_no_user_error():
    error = errors.Interrupted(15)
    assert (error.signum, error.exit_status) == (15, 143)
    assert "SIGTERM" in str(error)
    assert not isinstance(error, errors.UserError)
    assert not issubclass(errors.RunHalted, errors.UserError)
