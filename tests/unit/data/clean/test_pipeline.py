from __future__ import annotations

import pytest

from llmstack.config.clean import ExactDuplicatesConfig, LengthConfig, NearDuplicatesConfig, RepeatedLinesConfig
from llmstack.data.clean.exact_duplicates import ExactDuplicates
from llmstack.data.clean.length import Length
from llmstack.data.clean.near_duplicates import NearDuplicates
from llmstack.data.clean.pipeline import Listener, Pipeline
from llmstack.data.clean.repeated_lines import RepeatedLines
from llmstack.data.clean.tally import Excerpts
from llmstack.data.workers import Workers
from tests.unit.data.clean.corpus import Writer, document


def length(**bounds):
    return "length", Length(LengthConfig(kind="length", **bounds), seed=0)


def exact():
    return "exact_duplicates", ExactDuplicates(ExactDuplicatesConfig(kind="exact_duplicates"), seed=0)


def run(tmp_path, steps, texts, *, workers=1, listener=None):
    left = []
    with Workers(workers, tmp_path) as pool:
        pipeline = Pipeline(steps, excerpts=Excerpts(3, 40), workers=pool, listener=listener or Listener())
        documents = (document(text, number) for number, text in enumerate(texts))
        reports = pipeline.run(documents, tmp_path, left.extend)
    return left, reports


def test_steps_of_both_kinds_keep_their_order(tmp_path):
    texts = ["aaa", "bbb", "aaa", "c", "AAA", "c"]
    left, reports = run(tmp_path, [length(min_chars=2), exact(), length(max_chars=3)], texts)
    assert [item.number for item in left] == [0, 1]
    assert [(report.name, report.tally.documents_in, report.tally.documents_out) for report in reports] == [
        ("length", 6, 4),
        ("exact_duplicates", 4, 2),
        ("length", 2, 2),
    ]
    assert reports[1].details["largest_clusters"] == [["file:1", "file:3", "file:5"]]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", [[exact], [exact, exact], [exact, lambda: length(min_chars=1), exact]])
def test_corpus_steps_may_come_first_last_and_twice(tmp_path, steps):
    left, reports = run(tmp_path, [step() for step in steps], ["a", "b", "a"])
    assert [item.text for item in left] == ["a", "b"]
    assert [report.tally.documents_out for report in reports] == [2] * len(steps)


def test_a_corpus_step_that_leaves_nothing_and_one_that_gets_nothing(tmp_path):
    left, reports = run(tmp_path, [length(min_chars=9), exact(), length(min_chars=1)], ["a", "b"])
    assert left == []
    assert [report.tally.documents_in for report in reports] == [2, 0, 0]


def all_steps():
    return [
        length(min_chars=10),
        ("repeated_lines", RepeatedLines(RepeatedLinesConfig(kind="repeated_lines", max_documents=5), seed=0)),
        exact(),
        ("near_duplicates", NearDuplicates(NearDuplicatesConfig(kind="near_duplicates"), seed=1)),
    ]


def test_the_result_is_the_same_for_any_number_of_processes(tmp_path):
    writer = Writer(16)
    texts = ["\n".join(writer.lines(3)) for _ in range(800)]
    texts += [writer.edited(text, 1) for text in texts[:40]] + texts[100:130] + ["short"] * 5
    results = []
    for workers in (1, 2, 3):
        left, reports = run(tmp_path, all_steps(), texts, workers=workers)
        for report in reports:
            report.tally.cpu_seconds = 0.0
        results.append((left, reports))
    assert results[0] == results[1] == results[2]
    assert 700 < len(results[0][0]) < len(texts) - 35


def test_the_listener_hears_of_every_batch_and_step(tmp_path):
    heard = []

    class Note(Listener):
        def advanced(self, names, documents, total):
            heard.append((names, documents, total))

        def finished(self, step):
            heard.append((step.name, step.tally.documents_out))

    texts = [f"text {number}" for number in range(300)] + ["text 1"]
    run(tmp_path, [length(min_chars=1), exact(), length(min_chars=7)], texts, listener=Note())
    assert heard == [
        (["length", "exact_duplicates"], 256, None),
        (["length", "exact_duplicates"], 301, None),
        ("length", 301),
        (["exact_duplicates", "length"], 256, 301),
        (["exact_duplicates", "length"], 301, 301),
        ("exact_duplicates", 300),
        ("length", 200 + 90),
    ]
