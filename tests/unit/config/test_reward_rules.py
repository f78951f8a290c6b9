from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from llmstack.config.reward_rules import LengthShapingConfig
from llmstack.config.rewards import AnyReward

decode = TypeAdapter(AnyReward).validate_python


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "overlong", "max_length": 5}, "expected a length because `mode` is overlong, got nothing"),
        ({"mode": "target"}, "expected a length because `mode` is target, got nothing. Add `target:`"),
        ({"mode": "target", "target": 3, "max_length": 5}, "expected nothing because `mode` is target, got 5"),
        ({"mode": "overlong", "max_length": 5, "cushion": 2, "slack": 1}, "because `mode` is overlong, got 1"),
        ({"mode": "overlong", "max_length": 5, "cushion": 6}, r"expected at most max_length \(5\), got 6"),
    ],
)
def test_lengths_fit_the_mode(options, message):
    with pytest.raises(ValidationError, match=message):
        decode({"kind": "length_shaping", **options})


def test_a_rule_has_the_options_of_its_kind():
    assert isinstance(decode({"kind": "length_shaping", "mode": "target", "target": 3}), LengthShapingConfig)
    assert decode({"kind": "numeric_answer", "find": ["last"]}).find == ("last",)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"kind": "format_regex", "pattern": "(a"}, "pattern"),
        ({"kind": "exact_match", "extract": "["}, "extract"),
        ({"kind": "numeric_answer", "find": []}, "find"),
        ({"kind": "numeric_answer", "abs_tolerance": -1.0}, "abs_tolerance"),
        ({"kind": "repetition", "ngram": 0}, "ngram"),
        ({"kind": "exact_match", "ignore_cse": True}, "ignore_cse"),
    ],
)
def test_a_wrong_option_is_named(options, key):
    with pytest.raises(ValidationError) as error:
        decode(options)
    assert [problem["loc"] for problem in error.value.errors()] == [(key,)]
