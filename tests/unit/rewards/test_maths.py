from __future__ import annotations

import json
import subprocess

from llmstack.rewards import maths


def test_a_line_for_each_answer_in_an_isolated_interpreter(tmp_path):
    items = [["so 7", "7"], [r"\boxed{2(x+1)}", "2x+2"], ["8", "7"], ["8", "seven"]]
    done = subprocess.run(
        maths.command(), input=json.dumps(items), capture_output=True, text=True, cwd=tmp_path, env={}, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [1.0, 1.0, 0.0, None]


def test_the_rule_is_that_of_numbers_with_expressions():
    assert maths.RULE.expressions
