from __future__ import annotations

import pytest

from llmstack.cli.plan_text import as_text, count_text, seconds_text, settings_text, size_text
from llmstack.config.load import load_recipe
from llmstack.parallel.plan.plan import make_plan
from tests.helpers.plans import layout, one_cpu


@pytest.mark.parametrize(("size", "text"), [(1.26e9, "1.3 GB"), (2.5e6, "2.5 MB"), (0, "0.0 MB")])
def test_sizes(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize(("count", "text"), [(6.74e9, "6.74G"), (2048, "2.05k"), (12, "12"), (3e12, "3T")])
def test_counts(count, text):
    assert count_text(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.0123, "12.3 ms"), (4.4, "4.4 s"), (150, "2.5 min")])
def test_times(seconds, text):
    assert seconds_text(seconds) == text


def test_a_layout_in_words():
    assert settings_text(one_cpu()) == "one device"
    assert settings_text(layout(data=2, tensor=4, sequence_parallel=True)) == "tensor 4, data 2, sequence_parallel"


def test_without_hardware_it_says_what_is_missing():
    config = load_recipe("quickstart").config
    text = as_text(make_plan(config, ["quickstart"], None, None))
    assert "name the devices with --hardware" in text and "Expected time" not in text
    assert "nothing: there is one device" in text and text.endswith("llmstack train quickstart\n")


def test_columns_stand_below_each_other():
    config = load_recipe("cluster_7b_64").config
    lines = as_text(make_plan(config, ["cluster_7b_64"], None, config.hardware)).splitlines()
    start = lines.index("Memory of the fullest device")
    assert len({len(line) for line in lines[start + 1 : start + 6]}) == 1
