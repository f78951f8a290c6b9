from __future__ import annotations

import pytest

from llmstack.annotation.annotator import Usage
from llmstack.annotation.asking import Tally
from llmstack.annotation.report import annotator_row, markdown, number, summary
from llmstack.config.annotation import PriceConfig

USAGE = Usage(new=2, kept=3, input_tokens=5000, output_tokens=70, new_input_tokens=2000, new_output_tokens=40, untold=1)


@pytest.fixture
def report():
    judge = annotator_row("endpoint", USAGE, Tally(1, 2, 3, 4, 6), PriceConfig(input=1.5, output=10.0))
    return {
        "task": "class",
        "files": {"records": "o/records.jsonl", "queue": "o/queue.jsonl", "cache": "c", "report": "o/report.md"},
        "items": 9,
        "duplicates": 2,
        "equal_answers": 0,
        "records": {"total": 6, "human": 1, "automatic": 5, "semi_automatic": 0},
        "discarded": 1,
        "queue": {"total": 2, "why": {"tie": 2, "flip": 1}, "labels": 1, "no_longer_in_data": 0},
        "annotators": {"judge": judge},
        "people": {"ann": {"labels": 4, "open": 1, "not_in_data": 2}},
        "agreement": [
            {
                "first": "judge",
                "second": "ann",
                "items": 4,
                "raw": 0.75,
                "kappa": None,
                "confusion": {"a|b": {"a|b": 3}, "c": {"a|b": 1}},
            }
        ],  # fmt: skip
        "perplexity": None,
    }


def test_the_cost_by_hand():
    row = annotator_row("endpoint", USAGE, Tally(pairs=4, first_place=6), PriceConfig(input=1.5, output=10.0))
    assert row["cost_new"] == pytest.approx(0.003 + 0.0004)
    assert row["cost"] == pytest.approx(0.0075 + 0.0007)
    assert row["first_place_ratio"] == 0.75
    free = annotator_row("model", USAGE, Tally(), None)
    assert (free["cost"], free["cost_new"], free["first_place_ratio"]) == (None, None, None)


def test_a_summary(report):
    assert summary(report) == (
        "items      9 items: 2 duplicates left out\n"
        "judge      2 requests, 3 answers kept from before, 1 asked again, 2 unreadable, 3 of 4 pairs flipped, "
        "2,000 + 40 tokens, cost 0.0034 (in all 0.0082)\n"
        "ann        4 labels, 2 of them for items that are not in the data, 1 row without one\n"
        "records    6 in o/records.jsonl: 1 human, 5 automatic\n"
        "queue      2 in o/queue.jsonl: 2 tie, 1 flip\n"
        "agreement  judge and ann: kappa -, 0.75 equal, on 4 items\n"
        "report     o/report.md\n"
        "Fill in `label` in the queue, then run this again.\n"
    )
    report |= {"queue": {"total": 0, "why": {}}, "items": 1, "duplicates": 1, "equal_answers": 3}
    assert summary(report).startswith("items      1 item: 1 duplicate left out, 3 with equal answers left out\n")
    assert "Fill in" not in summary(report)


def test_a_page(report):
    page = markdown(report)
    assert "| human | 1 |\n| automatic | 5 |" in page
    assert "| tie | 2 |" in page
    assert "| judge | endpoint | 2 | 3 | 1 | 2 | 5,000 | 70 | 0.0034 | 0.0082 | 3/4 | 0.75 |" in page
    assert "without their number of tokens, which are not in the cost: 1." in page
    assert "| ann | 4 | 1 | 2 |" in page
    assert "| judge \\ ann | a\\|b | c |\n| --- | --- | --- |\n| a\\|b | 3 | 0 |\n| c | 1 | 0 |" in page
    assert "Perplexity" not in page


def test_a_page_with_perplexities(report):
    row = {"labels": 3, "left_out": 1, "tokens": 12, "nll": 2.0, "perplexity": 7.389}
    report["perplexity"] = {
        "model": "m",
        "sources": [{"source": "human", **row}],
        "same_items": [{"items_of": "human", "labels_by": "automatic", **row, "nll": None, "perplexity": None}],
    }
    page = markdown(report)
    assert "## Perplexity of the labels under m" in page
    assert "| human | 3 | 1 | 12 | 2 | 7.389 |" in page
    assert "| human | automatic | 3 | 1 | 12 | - | - |" in page
    assert "perplexity  7.389 of 3 human labels\n" in summary(report)


def test_numbers():
    assert [number(value) for value in (None, 0.0, 1.0, 0.25, 1234.5678, 0.00345, -0.5)] == [
        "-", "0", "1", "0.25", "1,234.568", "0.00345", "-0.5"]  # fmt: skip
