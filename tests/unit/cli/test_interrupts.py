from __future__ import annotations

import signal

import pytest

from llmstack.cli.interrupts import Interrupts


def press():
    signal.raise_signal(signal.SIGINT)


def test_a_press_waits_until_it_is_asked_for():
    with Interrupts() as interrupts:
        assert not interrupts.came()
        press()
        press()
        assert interrupts.came()
        assert not interrupts.came()


def test_where_it_is_allowed_it_raises():
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            press()
        press()  # waits again
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            pass
        assert not interrupts.came()


def test_everything_is_as_before_afterwards():
    before = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with Interrupts() as interrupts:
        with interrupts.allowed():
            pass
        press()
    assert (signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())) == before
