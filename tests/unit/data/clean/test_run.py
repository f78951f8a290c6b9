from __future__ import annotations

import json
import time

import pytest
import zstandard

from llmstack.config.clean import CleanConfig
from llmstack.data.clean.pipeline import Listener
from llmstack.data.clean.run import build_steps, clean, documents_of
from llmstack.data.clean.step import CorpusStep
from llmstack.errors import DataError
from tests.unit.data.clean.corpus import (
    BOILERPLATE,
    PERSONAL,
    Writer,
    document,
    precision_and_recall,
    with_boilerplate,
    with_contamination,
    with_copies,
)


@pytest.fixture
def job(tmp_path):
    """Runs a job on texts; gives the records that are left and the report."""
    source, out = tmp_path / "data.jsonl", tmp_path / "out"

    def run(texts, *steps, **options):
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        for old in out.glob("*"):
            old.unlink()
        out.mkdir(exist_ok=True)
        config = config_of(source, steps, options)
        report = clean(config, out, resolved=config.model_dump(mode="json"), listener=Listener())
        return rows_in(out), report

    return run


def config_of(source, steps, options):
    data = {"source": "jsonl", "record": "text", "path": str(source)}
    base = {"data": data, "out": "unused", "workers": 1}
    return CleanConfig.model_validate(base | {"steps": list(steps)} | options)


def rows_in(out):
    raw = [path.read_bytes() for path in sorted(out.glob("*.jsonl"))]
    raw += [zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read() for path in sorted(out.glob("*.zst"))]
    return [json.loads(line) for part in raw for line in part.decode().split("\n")[:-1]]


def kind(name, **options):
    return {"kind": name, **options}


def line_of(row) -> int:
    """The number of a record's document, from its place in the source."""
    return int(row["where"].rpartition(":")[2]) - 1


def test_everything_planted_in_one_corpus_is_found_and_reported(job, tmp_path):
    """All steps in a row on a mixed corpus; each plant is found by the step it is meant for, and nothing else goes."""
    writer = Writer(20)
    questions = [f"{writer.sentence()} {writer.sentence()}" for _ in range(10)]
    (tmp_path / "quiz.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in questions))
    parts = {
        "near_duplicates": with_copies(21, originals=120, copies=20, edits=2),
        "exact_duplicates": with_copies(22, originals=60, copies=20, edits=0),
        "repeated_lines": with_boilerplate(23, originals=40, planted=20),
        "decontaminate": with_contamination(24, questions, originals=30),
    }
    texts, planted = [], {}
    for name, part in parts.items():
        planted[name] = {len(texts) + number for number in part.planted}
        texts += part.texts
    personal = [f"{writer.sentence()} Write to {item}." for items in PERSONAL.values() for item in items]
    planted["personal_data"] = set(range(len(texts), len(texts) + len(personal)))
    texts += [f"{text}\n" + "\n".join(writer.lines()) for text in personal]
    planted["length"] = set(range(len(texts), len(texts) + 5))
    texts += ["too short"] * 5
    quiz = {"source": "jsonl", "record": "prompt", "path": str(tmp_path / "quiz.jsonl")}
    left, report = job(
        texts,
        kind("normalise"),
        kind("length", min_words=10),
        kind("language", keep=["en"], min_score=0.5),
        kind("gopher_quality"),
        kind("gopher_repetition"),
        kind("repeated_lines"),
        kind("exact_duplicates"),
        kind("near_duplicates"),
        kind("decontaminate", against={"quiz": quiz}),
        kind("personal_data"),
        report={"examples": 1000},
    )
    by_kind = {step.name: step for step in report.steps}
    for name in ("length", "exact_duplicates", "near_duplicates", "decontaminate"):
        found = by_kind[name].tally.dropped.values()
        numbers = {line_of(example) for finding in found for example in finding.examples}
        assert precision_and_recall(numbers, planted[name]) == (1.0, 1.0), name
    for name in ("repeated_lines", "personal_data"):
        found = by_kind[name].tally.changed.values()
        numbers = {line_of(example) for finding in found for example in finding.examples}
        assert precision_and_recall(numbers, planted[name]) == (1.0, 1.0), name
    dropped = set().union(*(planted[name] for name in planted if name not in ("repeated_lines", "personal_data")))
    lost = {number for number in range(len(texts))} - dropped - {line_of(row) for row in left}
    assert len(lost) <= 1  # prose that repeats itself by chance
    whole = "\n".join(row["text"] for row in left)
    assert not any(item in whole for items in PERSONAL.values() for item in items)
    assert not any(line in whole for line in BOILERPLATE)
    assert by_kind["near_duplicates"].details["clusters"] == 20


def test_the_report_shows_no_personal_data_of_documents_dropped_before_the_mask(job, tmp_path):
    secret = "jo@example.org"
    padding = "x" * 110
    _, report = job(
        [f"{secret} short", f"{padding} {secret}", "word " * 10], kind("length", min_words=5), kind("personal_data")
    )
    text = (tmp_path / "out" / "report.md").read_text() + (tmp_path / "out" / "report.json").read_text()
    assert "EMAIL" in text and "jo@" not in text
    _, report = job([f"{secret} short", "word " * 10], kind("length", min_words=5))
    assert secret in report.steps[1].tally.dropped["fewer than 5 words"].examples[0]["text"]


def test_the_result_is_a_source(job, tmp_path):
    job(["one two", "x", "zwei\u2028 drei"], kind("length", min_words=2))
    again = config_of(tmp_path / "out" / "data.jsonl", [kind("exact_duplicates")], {})
    assert [item.text for item in documents_of(again)] == ["one two", "zwei\u2028 drei"]


def test_shards_hold_the_same_documents(job, tmp_path):
    texts = [f"text {number}" for number in range(11)]
    left, report = job(texts, kind("length", min_chars=1), shards=3)
    assert sorted(row["text"] for row in left) == sorted(texts)
    assert report.files == [f"part-{number:05d}.jsonl.zst" for number in range(3)]


def test_slices_and_one_pass_for_duplicates_make_a_whole(job):
    corpus = with_copies(25, originals=40, copies=10, edits=2)
    steps = [kind("length", min_words=50), kind("near_duplicates")]
    whole, _ = job(corpus.texts, *steps)
    parts = [job(corpus.texts, *steps[:1], slice={"index": index, "of": 3})[0] for index in range(3)]
    assert sorted(line_of(row) for part in parts for row in part) == list(range(len(corpus.texts)))
    merged, _ = job([row["text"] for part in parts for row in part], *steps[1:])
    assert len(merged) == len(whole) == len(corpus.texts) - 10


def test_documents_without_text_are_counted(job):
    left, report = job(["", " \n", "a"], kind("length", min_chars=1))
    assert [row["text"] for row in left] == ["a"]
    assert report.steps[0].tally.dropped["no text"].documents == 2
    assert report.documents_in == 3


def test_a_job_that_leaves_nothing_writes_a_report_alone(job, tmp_path):
    left, report = job(["a", "b"], kind("length", min_chars=5))
    assert (left, report.documents_out, report.files) == ([], 0, [])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.json", "report.md"}


@pytest.mark.parametrize(
    ("record", "row", "message"),
    [
        ("prompt", {"prompt": "p"}, r"data\.jsonl:1: expected a text record for cleaning, got PromptRecord"),
        ("text", {"text": "\ud800"}, r"data\.jsonl:1: expected a string of whole characters"),
        ("text", {"txt": "a"}, r"data\.jsonl:1: expected field 'text'"),
    ],
)
def test_records_that_are_no_text_are_refused(tmp_path, record, row, message):
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(row))
    config = config_of(path, [kind("normalise")], {"data": {"source": "jsonl", "record": record, "path": str(path)}})
    with pytest.raises(DataError, match=message):
        list(documents_of(config))


def test_an_empty_slice_and_an_empty_source_are_refused(job):
    with pytest.raises(DataError, match="data: expected at least one document, got none"):
        job(["a"], kind("normalise"), slice={"index": 1, "of": 2})
    with pytest.raises(DataError, match="expected at least one JSON object, got an empty data set"):
        job([], kind("normalise"))


def test_a_step_that_cannot_be_built_is_named(tmp_path):
    config = config_of(tmp_path, [kind("normalise"), kind("personal_data", phone_regions=["ZZ"])], {})
    with pytest.raises(DataError, match=r"^steps\.1\.phone_regions: expected ISO 3166"):
        build_steps(config.steps, seed=0)


RUNS = {
    "spaces": "a" + " " * 200_000 + "b.",
    "marks": "x" + "." * 200_000 + "x y",
    "one word": "a " * 100_000,
    "digits": "1 " * 50_000,
    "colons": "0:" * 50_000,
    "at signs": "a@" * 100_000,
    "a long name": "a." * 100_000 + "@b.com",
    "pairs": " ".join(f"w{number // 2} v{number // 2}" for number in range(20_000)) * 2,
}
"""Texts on which a careless expression, or a comparison of all with all, takes minutes: the square of their length."""


@pytest.mark.parametrize("name", RUNS)
def test_no_step_costs_the_square_of_a_text_s_length(name):
    off = dict.fromkeys(("max_duplicate_line_ratio", "max_duplicate_line_char_ratio"))
    whole = {"max_top_ngram_char_ratio": {2: 1.0, 3: 1.0}, "max_duplicate_ngram_char_ratio": {5: 1.0, 10: 1.0}}
    kinds = ("normalise", "gopher_quality", "c4", "repeated_lines", "repeated_sentences", "near_duplicates")
    steps = [kind(one) for one in (*kinds, "exact_duplicates", "personal_data")]
    steps += [kind("gopher_repetition", **off, **whole), kind("language", keep=["en"])]
    for one, step in build_steps(config_of("x", steps, {}).steps, seed=0):
        started = time.process_time()
        work = step.scan if isinstance(step, CorpusStep) else step.apply
        work(document(RUNS[name]))
        assert time.process_time() - started < 10, one
