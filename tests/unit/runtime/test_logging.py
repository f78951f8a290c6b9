"""Lines go to stderr and to the run's file."""

from __future__ import annotations

import logging

import pytest

from llmstack.errors import RunFolderError
from llmstack.runtime.logging import close_logging, get_logger, setup_logging


@pytest.fixture(autouse=True)
def _closed():
    yield
    close_logging()


def test_short_lines_on_stderr_and_full_ones_in_the_file(tmp_path, capsys):
    setup_logging(tmp_path / "run.log")
    get_logger("engine").info("step %d", 3)
    get_logger("engine").debug("detail")
    on_screen = capsys.readouterr()
    assert on_screen.out == "" and on_screen.err.endswith(" step 3\n") and "detail" not in on_screen.err
    written = (tmp_path / "run.log").read_text()
    assert "INFO llmstack.engine: step 3" in written and "DEBUG llmstack.engine: detail" in written


def test_setting_up_again_replaces_and_appends(tmp_path, capsys):
    for text in ("one", "two"):
        setup_logging(tmp_path / "run.log")
        get_logger().warning(text)
    assert capsys.readouterr().err.count("\n") == 2
    assert (tmp_path / "run.log").read_text().count("\n") == 2


def test_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="expected a log file that can be written"):
        setup_logging(tmp_path / "missing" / "run.log")


def test_closing_gives_the_lines_back(caplog):
    setup_logging()
    close_logging()
    with caplog.at_level(logging.INFO, "llmstack"):
        get_logger().info("seen by pytest")
    assert "seen by pytest" in caplog.text
