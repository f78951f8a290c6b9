from __future__ import annotations

import argparse

import pytest

from llmstack.cli import arguments


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (arguments.positive, {"1": 1, "12": 12}, ("0", "-1", "1.5", "x")),
        (arguments.natural, {"0": 0, "3": 3}, ("-1", "")),
        (arguments.not_negative, {"0": 0.0, "1.5": 1.5}, ("-0.1", "inf", "nan", "hot")),
        (arguments.positive_number, {"0.5": 0.5}, ("0", "inf")),
        (arguments.share, {"1": 1.0, "0.1": 0.1}, ("0", "1.1")),
        (arguments.ratio, {"0": 0.0, "1": 1.0}, ("-0.1", "1.1", "nan")),
        (
            arguments.num_bytes,
            {"5GB": 5 * 10**9, "0.5 mb": 500_000, "64KB": 64_000},
            ("5", "0GB", "-1GB", "GB", "5TB", "many"),
        ),
        (arguments.field, {"prompt=question": ("prompt", "question"), "a=b=c": ("a", "b=c")}, ("a", "=b", "a=")),
    ],
)
def test_values(kind, good, bad):
    assert {text: kind(text) for text in good} == good
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match="expected"):
            kind(text)


def test_sampling_defaults_draw_from_the_model_as_it_is():
    command = argparse.ArgumentParser()
    arguments.add_sampling(command, temperature=0.7, max_new_tokens=9)
    assert vars(command.parse_args([])) == {
        "temperature": 0.7,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "max_new_tokens": 9,
        "seed": 0,
    }
