"""Jobs of labelling in a temporary folder, and annotators that need no server."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from llmstack.annotation.annotator import AutomaticAnnotator, Setting
from llmstack.annotation.cache import AnswerCache
from llmstack.annotation.loop import annotate
from llmstack.annotation.requests import Reply
from llmstack.config.annotation import AnnotateConfig, SamplingConfig
from llmstack.config.document import load_document
from llmstack.runtime.http import Timing

TEXTS = ("a fine day", "a foul night", "fine food", "foul play", "so so")
PAIRS = (("sum?", "four", "five"), ("sky?", "green", "blue"), ("sea?", "wet", "dry"))


def read_rows(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def write_rows(path, rows):
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


class Job:
    """A job in a folder, which is the working directory.

    Args:
        folder: where its files are.
        url: of the server that labels.
        changes: keys of the configuration.
    """

    def __init__(self, folder, url, **changes):
        self.folder, self.out = folder, Path(folder, "made")
        write_rows(Path(folder, "in.jsonl"), [{"prompt": text} for text in TEXTS])
        self.tree = {
            "task": "class",
            "data": {"source": "jsonl", "path": "in.jsonl", "record": "prompt"},
            "out": "made",
            "labels": ["good", "bad"],
            "annotators": {"judge": {"kind": "endpoint", "url": url, "model": "m", "concurrency": 2}},
        } | changes

    def write(self):
        path = Path(self.folder, "job.yaml")
        path.write_text(yaml.safe_dump(self.tree, sort_keys=False), encoding="utf-8")
        return str(path)

    def run(self, *overrides):
        document = load_document(self.write(), overrides, AnnotateConfig)
        return annotate(document.config, resolved=document.resolved, timing=Timing(sleep=lambda _: None))

    @property
    def records(self):
        return read_rows(self.out / "records.jsonl")

    @property
    def queue(self):
        return read_rows(self.out / "queue.jsonl")

    def fill(self, label):
        """Do what a person does: fill in the queue.

        Args:
            label: row -> label; None leaves it open.
        """
        rows = [row | {"label": label(row) or ""} for row in self.queue]
        write_rows(self.out / "queue.jsonl", rows)


def preference_job(folder, url, **changes):
    job = Job(folder, url, task="preference", labels=[], **changes)
    rows = [{"prompt": prompt, "first": a, "second": b} for prompt, a, b in PAIRS]
    write_rows(Path(folder, "in.jsonl"), rows)
    job.tree["data"] |= {"record": "preference", "fields": {"chosen": "first", "rejected": "second"}}
    return job


class Scripted(AutomaticAnnotator[SamplingConfig]):
    """Answers what a function says; counts what it was asked."""

    def __init__(self, folder, answer, *, name="scripted", samples=1):
        config = SamplingConfig.model_construct(kind="scripted", temperature=1.0, samples=samples, max_tokens=5)
        super().__init__(config, Setting(name, AnswerCache(Path(folder, "cache.sqlite"))))
        self.answer, self.asked = answer, []

    @property
    def source(self):
        return "script", self.name

    def body(self, request):
        return {"messages": [[turn.role, turn.content] for turn in request.messages]}

    def ask(self, requests, keep):
        found = {}
        for index, request in enumerate(requests):
            self.asked.append(request)
            answer = self.answer(request)
            found[index] = keep(index, answer if isinstance(answer, Reply) else Reply(answer, "", 7, 2))
        return found


def user_text(body):
    """The last user message of a request's body."""
    return [turn["content"] for turn in body["messages"] if turn["role"] == "user"][-1]


def classing(body):
    """A server that knows fine from foul, and says something else to the rest."""
    text = user_text(body).partition("Text:\n")[2]
    return "Label: good" if "fine" in text else "Label: bad" if "foul" in text else "I cannot tell."
