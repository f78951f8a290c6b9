from __future__ import annotations

import pytest
import yaml

from llmstack.config.annotation import AnnotateConfig, template_problem
from llmstack.config.document import load_document
from llmstack.errors import ConfigError

JUDGE = {"kind": "endpoint", "url": "http://127.0.0.1:1/v1", "model": "judge"}


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Writes a configuration, changed at the given keys, and decodes it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"prompt": "x"}\n')
    (tmp_path / "people.jsonl").write_text('{"prompt": "x", "label": "good"}\n')

    def decode(*overrides, **changes):
        tree = {
            "task": "class",
            "data": {"source": "jsonl", "path": "in.jsonl", "record": "prompt"},
            "out": "made",
            "labels": ["good", "bad"],
            "annotators": {"judge": JUDGE, "people": {"kind": "human", "path": "people.jsonl"}},
        } | changes
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
        return load_document("job.yaml", overrides, AnnotateConfig).config

    return decode


def wrong(job, *overrides, **changes):
    with pytest.raises(ConfigError) as error:
        job(*overrides, **changes)
    return str(error.value)


def test_a_job_is_decoded_by_the_kinds_of_its_annotators(job):
    config = job("annotators.judge.samples=3", "annotators.judge.temperature=0.5", "overlap=0.25")
    assert list(config.annotators) == ["judge", "people"]
    assert [annotator.num_votes for annotator in config.annotators.values()] == [3, 0]
    assert str(config.queue_path) == "made/queue.jsonl"
    assert str(config.cache_path) == "made/cache.sqlite"
    config = job("queue=q.jsonl", "cache=c.sqlite")
    assert (str(config.queue_path), str(config.cache_path)) == ("q.jsonl", "c.sqlite")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["annotators.judge.samples=2"], "annotators.judge.samples: expected 1 because temperature is 0"),
        (["annotators.judge.url=http://x.org", "annotators.judge.api_key_env=K"], "judge.url: expected https because"),
        (["+annotators.judge.extra={n: 2}"], "annotators.judge.extra.n: expected further keys"),
        (["annotators.judge.kind=oracle"], "expected an annotator kind (endpoint, human, model), got 'oracle'"),
        (["annotators.judge.modle=x"], "Did you mean `model`?"),
        (["annotators.people.path=nowhere.jsonl"], "annotators.people.path: expected an existing file"),
        (["queue=made/../people.jsonl"], "annotators.people.path: expected a file other than the queue"),
        (["queue=people.jsonl"], "annotators.people.path: expected a file other than the queue"),
        (["uncertainty.min_agreement=0.5"], "uncertainty.min_agreement: expected null because an item gets 1"),
        (["uncertainty.flips=true"], "uncertainty.flips: expected null because task is class"),
        (["uncertainty.same=words"], "uncertainty.same: expected null because task is class"),
        (["uncertainty.answer_pattern='('"], "uncertainty.answer_pattern: expected a regular expression, got '('"),
        (["labels=[good]"], "labels: expected two or more labels, all different"),
        (["labels=[good, good]"], "labels: expected two or more labels, all different"),
        (["labels=[good, ' bad']"], "labels: expected labels of one line without blanks around them, got [' bad']"),
        (["prompt.template='Is {promt} good?'"], "got {promt}. Did you mean `prompt`?"),
        (["compare.model=nowhere"], "compare.model: expected an existing folder"),
        (["overlap=2"], "overlap: expected a number of at most 1"),
        (["threads=0"], "threads"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(job, overrides, message):
    assert message in wrong(job, *overrides)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "response"}, "labels: expected none because task is response, got 2"),
        ({"task": "preference", "labels": [], "prompt": {"template": "{prompt} {answer_a}"}}, "without {answer_b}"),
        ({"annotators": {"queue": JUDGE}}, "annotators.queue: expected another name"),
        ({"annotators": {}}, "annotators: expected 1 or more entries"),
        ({"annotators": {"p": {"kind": "human", "path": "people.jsonl"}}, "overlap": 0.5}, "overlap: expected 0"),
        (
            {"task": "response", "labels": [], "uncertainty": {"answer_pattern": "x"}},
            "uncertainty.answer_pattern: expected null because `same` is None",
        ),
    ],
)
def test_values_that_do_not_go_together(job, changes, message):
    assert message in wrong(job, **changes)


def test_templates():
    assert template_problem("{prompt} {{x}} {labels}", ["prompt"], ["labels"]) == ""
    assert template_problem("{prompt}", ["prompt"], ["labels"]) == ""
    for template, message in [
        ("{prompt", "cannot be read"),
        ("{prompt!r}", "got {prompt!r}"),
        ("{prompt:>3}", "got {prompt:>3}"),
        ("{}{prompt}", "got {}"),
        ("{prompt.x}", "got {prompt.x}"),
        ("{x}", "got {x}"),
        ("none", "without {prompt}"),
    ]:
        assert message in template_problem(template, ["prompt"], [])
