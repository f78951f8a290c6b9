from __future__ import annotations

import math

import pytest

from llmstack.errors import UserError
from llmstack.generation.rules import ALL_TOKENS, SamplingRules


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"top_k": -1}, "top_k: expected 0 or a number of tokens, got -1"),
        ({"top_p": 0.0}, "top_p: expected a share above 0 and at most 1, got 0.0"),
        ({"top_p": 1.5}, "top_p: expected a share above 0 and at most 1, got 1.5"),
        ({"min_p": -0.1}, "min_p: expected a share from 0 to 1, got -0.1"),
        ({"min_p": math.nan}, "min_p: expected a share from 0 to 1, got nan"),
        ({"repetition_penalty": 0.0}, "repetition_penalty: expected a positive number, got 0.0"),
        ({"repetition_penalty": math.inf}, "repetition_penalty: expected a positive number, got inf"),
    ],
)
def test_rules_that_leave_nothing_to_draw_are_refused(option, message):
    with pytest.raises(UserError, match=message):
        SamplingRules(**option)


def test_rules_at_their_bounds_pass():
    assert SamplingRules(top_k=0, top_p=1.0, min_p=1.0, repetition_penalty=0.5).penalises
    assert not ALL_TOKENS.penalises
