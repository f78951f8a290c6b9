"""Requests to stop. What the loop does with them: test_loop.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from llmstack.engine.stop import Interrupts, StopRequest, terminable
from llmstack.errors import Interrupted, Terminated

LIBRARY = """
import ctypes, os, signal, sys, time
from llmstack.engine.stop import Interrupts, StopRequest, end_at_once

libc = ctypes.CDLL(None)

def press():
    libc.signal(2, libc._exit)  # what a library does: a handler that Python knows nothing of
    os.kill(os.getpid(), signal.SIGINT)

def pressed():
    try:
        press()
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        return True
"""


def run_program(body: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", LIBRARY + body], capture_output=True, text=True, timeout=60, check=False
    )


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


def test_an_interrupt_raises_whatever_handler_a_library_set():
    body = "with Interrupts() as interrupts: print(pressed(), interrupts.raised)"
    assert run_program(body).stdout == "True True\n"


def test_without_it_the_handler_of_the_library_has_its_way():
    assert run_program("press()\ntime.sleep(10)").returncode == signal.SIGINT


def test_a_stop_request_hears_of_an_interrupt():
    body = """
with Interrupts():
    with StopRequest() as stop:
        press()
        while stop.signum is None: time.sleep(0.01)
    print(stop.signum, pressed())
"""
    assert run_program(body).stdout == "2 True\n"


@pytest.mark.parametrize("request_", ["StopRequest()", "Interrupts()", "Interrupts.given_to(print)"])
def test_a_second_interrupt_ends_a_process_that_is_busy_in_a_library(request_):
    """``usleep`` is to Python what a long graph is: it runs no handler. One who takes every press is asked nothing."""
    body = f"""
import threading
with Interrupts(), {request_}:
    threading.Thread(target=lambda: [(time.sleep(0.2), press()) for _ in range(2)], daemon=True).start()
    libc.usleep(900_000)
"""
    assert run_program(body).returncode == (0 if "print" in request_ else 130)


def test_where_nothing_is_to_be_saved_the_first_ends_it():
    done = run_program("with Interrupts(), Interrupts.given_to(end_at_once): press(); libc.usleep(10_000_000)")
    assert (done.returncode, done.stderr) == (130, "llmstack: interrupted\n")


def test_a_system_call_is_ended_where_it_raises():
    body = """
import threading
with Interrupts():
    libc.signal(2, libc._exit)
    with Interrupts.given_to(print), Interrupts.raising():
        threading.Timer(0.5, lambda: os.kill(os.getpid(), 2)).start()
        try: time.sleep(10)
        except KeyboardInterrupt: print("ended")
    print(pressed())
"""
    assert run_program(body).stdout == "ended\nTrue\n"


def test_handlers_and_mask_are_as_before_afterwards():
    def now():
        return signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())

    before = now()
    with Interrupts(), Interrupts(), Interrupts.raising():
        pass
    assert now() == before


def test_a_program_can_be_terminated_where_it_says_so():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), terminable():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert Terminated.exit_status == 143 and issubclass(Terminated, KeyboardInterrupt)
