from __future__ import annotations

import pytest

from llmstack.rewards import patterns
from tests.unit.rewards.batches import batch, make


def test_right_wrong_and_unknown():
    reward = make("numeric_answer", right=1.0, wrong=-0.5)
    answers = batch(["so 1,234", "12", "no idea", "4", "4"], ["1234", "13", "4", None, "four"])
    assert reward(answers) == [1.0, -0.5, -0.5, None, None]
    assert reward.metrics() == {"pattern_timeouts": 0.0}


@pytest.mark.parametrize(
    ("response", "found"),
    [
        ("3 + 4 = 7", "7"),
        (r"First 9. So \boxed{7}. Check: 8", "7"),
        ("2 then #### 7 apples in 3 bags", "7"),
        ("Answer: 7 (of 12)", "7"),
        (r"the answer is \boxed{7}, not 9", "7"),
        ("14/2", "7"),
        ("7.0000001", "7"),
    ],
)
def test_where_the_number_is(response, found):
    assert make("numeric_answer")(batch([response], [found])) == [1.0]


def test_places_in_order():
    response = r"\boxed{1} #### 2 and 3"
    for find, number in (
        (["last"], 3),
        (["marker"], 2),
        (["boxed"], 1),
        (["marker", "boxed"], 2),
        (["boxed", "last"], 1),
    ):
        scores = make("numeric_answer", find=find)(batch([response] * 3, ["1", "#### 2", "3"]))
        assert scores == [float(known == number) for known in (1, 2, 3)]
    assert make("numeric_answer", find=["marker"])(batch(["3"], ["3"])) == [0.0]


def test_a_box_without_a_number_leaves_the_search_to_the_next_place():
    assert make("numeric_answer")(batch([r"5 \boxed{none}"], ["5"])) == [1.0]


def test_expressions():
    reward = make("numeric_answer", expressions=True)
    responses = [r"\boxed{2(x+1)}", r"Answer: 1/2 + 1/2", "The answer is 3", "(1+2)*3", "1 1/2", r"\boxed{x}"]
    answers = ["2x + 2", "1", "3", "9", "3/2", "y"]
    assert reward(batch(responses, answers)) == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]


def test_tolerances_and_marker():
    assert make("numeric_answer", rel_tolerance=0.01)(batch(["100.5"], ["100"])) == [1.0]
    assert make("numeric_answer")(batch(["1000000001"], ["1000000000"])) == [0.0]
    assert make("numeric_answer", marker="=>", find=["marker"])(batch(["1 => 2 3"], ["=> 2"])) == [1.0]


def test_a_marker_out_of_time_leaves_the_answer_unscored_and_is_counted(monkeypatch):
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 0.05)
    reward = make("numeric_answer", marker="(a|aa)+=")
    assert reward(batch(["a" * 200 + "b 1", "1"], ["1", "1"])) == [None, 1.0]
    assert reward.metrics() == {"pattern_timeouts": 1.0}
