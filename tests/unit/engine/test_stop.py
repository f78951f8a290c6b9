"""Requests to stop. What the loop does with them: test_loop.py."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from llmstack.engine.stop import StopRequest
from llmstack.errors import Interrupted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_is_remembered_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert stop.signum is None
        os.kill(os.getpid(), number)
        assert stop.signum == number
    assert signal.getsignal(number) is before


def test_other_threads_set_no_handlers():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def enter():
        with StopRequest() as stop:
            seen.append((stop.signum, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


def test_exit_status_as_a_shell_counts():
    assert Interrupted(signal.SIGINT).exit_status == 130 and Interrupted(signal.SIGTERM).exit_status == 143
    assert "SIGTERM" in str(Interrupted(signal.SIGTERM))
