from __future__ import annotations

from llmstack.rewards import patterns
from tests.unit.rewards.batches import batch, make

FORM = r"<think>.*</think>\s*<answer>.*</answer>"


def test_all_of_the_answer_or_a_part():
    good, more = "<think>a\nb</think>\n<answer>4</answer>", "so <think>a</think> <answer>4</answer>"
    assert make("format_regex", pattern=FORM, flags=["dotall"])(batch([good, more])) == [1.0, 0.0]
    assert make("format_regex", pattern=FORM, match="search", right=0.5)(batch([good, more])) == [0.0, 0.5]


def test_a_pattern_out_of_time_leaves_the_answer_unscored_and_is_counted(monkeypatch):
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 0.05)
    reward = make("format_regex", pattern="(a|aa)+")
    assert reward(batch(["a" * 200 + "b", "aaa"])) == [None, 1.0]
    assert reward.metrics() == {"pattern_timeouts": 1.0}
    reward(batch(["a"]))
    assert reward.metrics() == {"pattern_timeouts": 0.0}
