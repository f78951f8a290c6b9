"""One round of labelling: ask what is new, take what people have said, write what is certain, queue the rest.

The same round again goes on from there: answers are in the cache, people's labels are kept, and when nothing is left
in the queue every item has its label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmstack import registry
from llmstack.annotation.annotator import Setting
from llmstack.annotation.asking import Annotator, Tally, ask_about
from llmstack.annotation.cache import AnswerCache
from llmstack.annotation.compare import agreements, own_labels, perplexities
from llmstack.annotation.items import Item, Items, read_items
from llmstack.annotation.merge import SOURCES, Merged, merge
from llmstack.annotation.people import HumanLabel, HumanLabels
from llmstack.annotation.queue import HumanQueue, locked, write_rows
from llmstack.annotation.report import Report, annotator_row, markdown
from llmstack.annotation.requests import Phrasing
from llmstack.annotation.votes import Decision, Vote, decide, extractor_of, rules_of
from llmstack.config.annotation import QUEUE, AnnotateConfig
from llmstack.engine.atomic import write_json, write_text
from llmstack.runtime.http import Timing

RECORDS_FILE, REPORT_FILE, PAGE_FILE = "records.jsonl", "report.json", "report.md"


@dataclass
class _Round:
    """What is known of the items."""

    data: Items
    items: dict[str, Item]
    people: dict[str, dict[str, HumanLabel]] = field(default_factory=dict)
    open_rows: dict[str, int] = field(default_factory=dict)
    queued: dict[str, HumanLabel] = field(default_factory=dict)
    votes: dict[str, dict[str, list[Vote]]] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)


def annotate(config: AnnotateConfig, *, resolved: Mapping[str, Any], timing: Timing | None = None) -> Report:
    """Label what can be labelled.

    Args:
        config: the job.
        resolved: the same as plain data, for the report.
        timing: clock and sleep of requests; None: the system's.

    Returns:
        The report, as it is written.

    Raises:
        UserError: data, a person's label, a key, an endpoint or a folder is not as it should be. Answers that came
            before are kept.
    """
    out = Path(config.out)
    queue = HumanQueue(config.queue_path, out, config.task, config.labels)
    now = _read(config, queue)
    with locked(out):
        pass  # refuses a folder that cannot be written before anything is asked
    with AnswerCache(config.cache_path) as cache:
        asked = _annotators(config, cache, timing)
        _ask(config, asked, now)
        with locked(out):
            now.queued = queue.labels()  # once more: people may have gone on while annotators were asked
            merged = merge(
                list(now.items.values()),
                config.task,
                people=now.people,
                queued=now.queued,
                decisions=now.decisions,
            )
            write_rows(out / RECORDS_FILE, merged.records)
            queue.write(now.queued, merged.queue)
        report = _report(config, resolved, now, merged, asked)
        with locked(out):
            write_json(out / REPORT_FILE, report)
            write_text(out / PAGE_FILE, markdown(report))
    return report


def _read(config: AnnotateConfig, queue: HumanQueue) -> _Round:
    source = registry.SOURCES.get(config.data.source)(config.data, seed=config.seed)
    data = read_items(source.records(), config.task)
    now = _Round(data, {item.id: item for item in data.items})
    for name, options in config.annotators.items():
        if not options.num_votes:
            part = registry.ANNOTATORS.get(options.kind)
            file: HumanLabels = part(options, config.task, config.labels, where=f"annotators.{name}")
            now.people[name], now.open_rows[name] = file.read()
            for said in now.people[name].values():
                now.items.setdefault(said.item.id, said.item)
    now.queued = queue.labels()
    return now


def _annotators(config: AnnotateConfig, cache: AnswerCache, timing: Timing | None) -> dict[str, Annotator]:
    """Those that are asked; each refuses what it cannot work with before any is asked."""
    return {
        name: registry.ANNOTATORS.get(options.kind)(
            options, Setting(name, cache, config.seed, config.device, config.threads, timing)
        )
        for name, options in config.annotators.items()
        if options.num_votes
    }


def _ask(config: AnnotateConfig, asked: Mapping[str, Annotator], now: _Round) -> None:
    phrasing = Phrasing(config.task, config.prompt, config.labels, extractor_of(config.uncertainty))
    by_people = {*now.queued, *(name for labels in now.people.values() for name in labels)}
    kept_only = {name for name in by_people if not in_overlap(name, config.overlap, config.seed)}
    for name, annotator in asked.items():
        items = list(now.items.values())
        now.votes[name], now.tallies[name] = ask_about(annotator, items, phrasing, kept_only=kept_only)
    rules = rules_of(config.uncertainty, config.task)
    for item_id in now.items:
        votes = {name: some[item_id] for name, some in now.votes.items() if item_id in some}
        if votes:
            now.decisions[item_id] = decide(votes, rules)


def in_overlap(item_id: str, share: float, seed: int) -> bool:
    """Whether an item labelled by people is one that annotators are asked too.

    Each item's fate is its own, so that more data changes nothing for those that were there.

    Args:
        item_id: the item.
        share: of all items, from 0 to 1.
        seed: of the choice.
    """
    digest = hashlib.sha256(f"{seed} {item_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") < share * 2**32


def _report(
    config: AnnotateConfig, resolved: Mapping[str, Any], now: _Round, merged: Merged, asked: Mapping[str, Annotator]
) -> Report:
    out = Path(config.out)
    in_data = {item.id for item in now.data.items}
    rules = rules_of(config.uncertainty, config.task)
    labels = {name: own_labels(votes, rules) for name, votes in now.votes.items()}
    for name, said in (*now.people.items(), (QUEUE, now.queued)):
        known = {key: one.about(now.items[key]) for key, one in said.items() if key in now.items}
        labels[name] = {key: one.label for key, one in known.items() if one.label is not None}
    return {
        "task": config.task,
        "files": {
            "records": str(out / RECORDS_FILE),
            "queue": str(config.queue_path),
            "cache": str(config.cache_path),
            "report": str(out / PAGE_FILE),
        },
        "items": len(now.items),
        "duplicates": now.data.duplicates,
        "equal_answers": now.data.equal_answers,
        "records": {"total": len(merged.records), **{source: merged.sources[source] for source in SOURCES}},
        "discarded": merged.discarded,
        "queue": {
            "total": len(merged.queue),
            "why": dict(merged.why.most_common()),
            "labels": len(now.queued),
            "no_longer_in_data": len(now.queued.keys() - now.items.keys()),
        },
        "annotators": {
            name: annotator_row(
                config.annotators[name].kind,
                annotator.usage,
                now.tallies[name],
                getattr(annotator.config, "price_per_million", None),
            )
            for name, annotator in asked.items()
        },
        "people": {
            name: {"labels": len(said), "open": now.open_rows[name], "not_in_data": len(said.keys() - in_data)}
            for name, said in now.people.items()
        },
        "agreement": agreements(labels, config.task, config.uncertainty),
        "perplexity": _perplexity(config, now, merged),
        "config": dict(resolved),
    }


def _perplexity(config: AnnotateConfig, now: _Round, merged: Merged) -> Report | None:
    if config.compare is None:
        return None
    from llmstack.runtime.device import setup

    setup(config.device, config.threads)
    from llmstack.evaluation.loading import load_language_model

    loaded = load_language_model(config.compare.model)
    found = perplexities(loaded, merged.records, now.decisions, now.items, config.task)
    return {"model": config.compare.model, **found}
