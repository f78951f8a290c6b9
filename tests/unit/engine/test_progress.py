"""A bar on a terminal, a plain line now and then anywhere else."""

from __future__ import annotations

import io
import logging
import sys

from llmstack.engine.progress import Progress


def test_plain_lines_are_rare_and_the_last_step_has_one(caplog):
    with caplog.at_level(logging.INFO, "llmstack"), Progress("sft", 100, 0, every_seconds=3600) as progress:
        for step in range(1, 101):
            progress.update(step, shown={"loss": 1.5, "accuracy": 0.75}, tokens_per_second=1234.5)
    assert [record.getMessage() for record in caplog.records] == [
        "sft 100/100: loss 1.5000, accuracy 0.7500, 1,234 tokens/s, 00:00 left"
    ]


def test_plain_line_after_the_interval(caplog):
    with caplog.at_level(logging.INFO, "llmstack"), Progress("sft", 100, 50, every_seconds=0) as progress:
        progress.update(51, shown={"loss": None}, tokens_per_second=0.0)
    assert caplog.records[0].getMessage().startswith("sft 51/100: loss -, 0 tokens/s, ")


def test_a_stage_that_shows_nothing(caplog):
    with caplog.at_level(logging.INFO, "llmstack"), Progress("own", 1, 0) as progress:
        progress.update(1, shown={}, tokens_per_second=5.0)
    assert caplog.records[0].getMessage() == "own 1/1: 5 tokens/s, 00:00 left"


def test_terminal_gets_a_bar(monkeypatch, caplog):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("sft", 10, 4) as progress:
        for step in range(5, 11):
            progress.update(step, shown={"loss": 0.25}, tokens_per_second=2000.0)
    assert "loss 0.2500, 2,000 tokens/s" in terminal.getvalue() and "10/10" in terminal.getvalue()
    assert not caplog.records
