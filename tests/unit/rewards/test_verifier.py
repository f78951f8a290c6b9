from __future__ import annotations

import sys
import time

import pytest

from llmstack.errors import UserError
from llmstack.rewards import maths
from llmstack.rewards.verifier import code_in
from tests.unit.rewards.batches import batch, make

TESTS = "assert double(2) == 4\nassert double(-1) == -2"


def test_code_is_run_with_its_tests():
    answers = [
        "Here:\n```python\ndef double(x):\n    return 2 * x\n```\nThat is it.",
        "def double(x):\n    return x + 2",
        "I cannot.",
        "def double(x): return 2 * x",
    ]
    reward = make("verifier", check="python", wall_seconds=60.0)
    assert reward(batch(answers, [TESTS, TESTS, TESTS, None])) == [1.0, 0.0, 0.0, None]
    assert reward.metrics() == {"verifier_timeouts": 0.0, "verifier_crashes": 0.0}


def test_a_hang_and_a_crash_are_unscored_and_counted():
    answers = [
        "import time; time.sleep(60)",
        "import os; os.abort()",
        "x = bytearray(2**32)",
        "def double(x): return 2*x",
    ]
    reward = make("verifier", check="python", wall_seconds=8.0, memory_mb=512, concurrency=4)
    started = time.perf_counter()
    assert reward(batch(answers, [TESTS] * 4)) == [None, None, None, 1.0]
    assert time.perf_counter() - started < 50  # the sleeper would take 60
    assert reward.metrics() == {"verifier_timeouts": 1.0, "verifier_crashes": 2.0}


def test_a_hang_may_have_a_score():
    reward = make("verifier", check="python", wall_seconds=0.5, timeout_score=-1.0)
    assert reward(batch(["while True: pass"], [TESTS])) == [-1.0]
    assert reward.metrics()["verifier_timeouts"] == 1.0


def test_code_of_an_answer():
    assert code_in("```py\na\n```\n```\nb\n```") == "b\n"
    assert code_in("```python\nopen") == "open"
    assert code_in("x = 1") == "x = 1"


def test_maths():
    reward = make("verifier", check="maths", wall_seconds=60.0)
    answers = batch([r"\boxed{\frac{1}{2}}", "0.5", "2", "x", "5"], ["1/2", "1/2", "3", None, "five"])
    assert reward(answers) == [1.0, 1.0, 0.0, None, None]
    assert reward.metrics() == {"verifier_timeouts": 0.0, "verifier_crashes": 0.0}


def test_maths_goes_on_behind_an_answer_that_hangs(monkeypatch):
    program = (
        "import json, sys, time\n"
        "for response, answer in json.load(sys.stdin):\n"
        "    if response == 'hang': time.sleep(60)\n"
        "    print(float(response == answer), flush=True)"
    )
    monkeypatch.setattr(maths, "command", lambda: [sys.executable, "-c", program])
    reward = make("verifier", check="maths", wall_seconds=8.0, concurrency=1)
    assert reward(batch(["1", "hang", "2"], ["1", "1", "1"])) == [1.0, None, 0.0]
    assert reward.metrics() == {"verifier_timeouts": 1.0, "verifier_crashes": 0.0}


CHECKER = """
import json, sys
item = json.load(sys.stdin)
if item["response"] == "crash": raise ValueError
if item["response"] == "silent": sys.exit()
print("thinking")
print({"nan": "nan"}.get(item["response"], 0.5 if item["response"] == item["answer"] + item["prompt"] else 0))
"""


def test_a_program_of_the_users(tmp_path, monkeypatch):
    (tmp_path / "check.py").write_text(CHECKER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    reward = make("verifier", check="command", command=[sys.executable, "check.py"], wall_seconds=60.0)
    answers = batch(["ap", "b", "crash", "silent", "nan"], ["a"] * 5, prompts=["p"] * 5)
    assert reward(answers) == [0.5, 0.0, None, None, None]
    assert reward.metrics() == {"verifier_timeouts": 0.0, "verifier_crashes": 3.0}


def test_a_program_that_is_not_there():
    with pytest.raises(
        UserError, match=r"stages\.p\.reward\.command: expected a program that can be run, got 'no-such'"
    ):
        make("verifier", check="command", command=["no-such"])
