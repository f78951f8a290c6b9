from __future__ import annotations

import threading

import pytest

from llmstack.runtime.parallel import in_parallel


def test_every_item_is_done_once_with_its_place():
    assert sorted(in_parallel(lambda n: n * n, range(7), workers=3)) == [(n, n * n) for n in range(7)]
    assert list(in_parallel(str, [], workers=3)) == []


def test_no_more_at_a_time_than_asked_for():
    lock, running, most = threading.Lock(), set(), []
    together = threading.Barrier(3, timeout=10)

    def work(n):
        with lock:
            running.add(n)
            most.append(len(running))
        if n < 3:
            together.wait()  # passes only when three are under way at once
        with lock:
            running.remove(n)

    list(in_parallel(work, range(20), workers=3))
    assert max(most) == 3


def test_after_a_failure_nothing_begins_and_what_is_under_way_is_handed_out():
    begun, told = [], threading.Event()

    def work(n):
        begun.append(n)
        if n == 0:
            raise KeyError("zero")
        assert told.wait(10)
        return n

    found = []
    with pytest.raises(KeyError, match="zero"):
        found.extend(in_parallel(work, range(100), workers=2, on_failure=told.set))
    assert sorted(begun) == [0, 1]
    assert found == [(1, 1)]


def test_leaving_early_begins_nothing_more():
    begun, told = [], []
    results = in_parallel(begun.append, range(100), workers=1, on_failure=lambda: told.append(1))
    next(results)
    results.close()
    assert len(begun) <= 2
    assert told
