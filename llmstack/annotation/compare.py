"""The sources of labels side by side: who agrees with whom, and how well a model predicts the labels of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

from llmstack.annotation.agreement import agreement
from llmstack.annotation.items import Item
from llmstack.annotation.merge import SOURCES, record_of
from llmstack.annotation.votes import Decision, Rules, Vote, extractor_of, own_label, plain, word_f1
from llmstack.config.annotation import Task, UncertaintyConfig
from llmstack.data.records import ResponseRecord

if TYPE_CHECKING:
    from llmstack.evaluation.loading import Loaded
    from llmstack.models.causal_lm import CausalLM

Record = Mapping[str, Any]
Labels = Mapping[str, str]
"""Labels of an annotator by id of the item."""


def agreements(labels: Mapping[str, Labels], task: Task, config: UncertaintyConfig) -> list[dict[str, Any]]:
    """Every two annotators on the items both have labelled.

    Args:
        labels: by annotator.
        task: what kind of label they are.
        config: says when two responses are the same.

    Returns:
        A row for each two with an item in common: ``first, second, items, raw, kappa, confusion``. For responses,
        which are no closed list of labels, there is no confusion; compared by their words, ``raw`` is the mean
        overlap, and there is no kappa.
    """
    rows = []
    for first, second in combinations(labels, 2):
        common = [name for name in labels[first] if name in labels[second]]
        if not common:
            continue
        ours, theirs = ([labels[by][name] for name in common] for by in (first, second))
        if task == "response" and config.same == "words":
            raw = float(sum(map(word_f1, ours, theirs)) / len(common))
            found: dict[str, Any] = {"items": len(common), "raw": raw, "kappa": None, "confusion": {}}
        elif task == "response":
            found = asdict(agreement(_comparable(ours, config), _comparable(theirs, config))) | {"confusion": {}}
        else:
            found = asdict(agreement(ours, theirs))
        rows.append({"first": first, "second": second, **found})
    return rows


def _comparable(labels: Iterable[str], config: UncertaintyConfig) -> list[str]:
    extractor = extractor_of(config)
    if extractor is None:
        return [plain(label) for label in labels]
    return [extractor.known(label) for label in labels]


def perplexities(
    loaded: Loaded[CausalLM],
    records: Sequence[Record],
    decisions: Mapping[str, Decision],
    items: Mapping[str, Item],
    task: Task,
) -> dict[str, Any]:
    """How well a model predicts the labels of each source, given their prompts.

    Sources label different items, the hard ones going to people, so that the first table alone would compare items as
    much as labels. The second holds labels of two sources for the same items: those of people, and the ones automatic
    annotators would have given.

    Args:
        loaded: the model.
        records: what is written.
        decisions: what automatic annotators came to, by id, whether it was taken or not.
        items: by id.
        task: what kind of label they are.

    Returns:
        ``sources`` and ``same_items``, lists of rows with ``labels, left_out, tokens, nll, perplexity``.
    """
    from llmstack.evaluation.perplexity import answer_rows, mean_of_rows

    tables: list[tuple[str, dict[str, str], list[ResponseRecord]]] = []
    for source in SOURCES:
        own = [record for record in records if record["label_source"] == source]
        if own:
            tables.append(("sources", {"source": source}, [_sample(record) for record in own]))
        both = [record for record in own if source != "automatic" and _label(decisions, record["id"])]
        if both:
            automatic = [record_of(items[r["id"]], task, _label(decisions, r["id"])) | {"where": ""} for r in both]
            where = {"items_of": source}
            tables.append(("same_items", {**where, "labels_by": source}, [_sample(record) for record in both]))
            tables.append(("same_items", {**where, "labels_by": "automatic"}, [_sample(r) for r in automatic]))
    rows = iter(answer_rows(loaded, [sample for _, _, samples in tables for sample in samples]))
    found: dict[str, list[dict[str, Any]]] = {"sources": [], "same_items": []}
    for table, about, samples in tables:
        part = _take(rows, len(samples))
        left_out = sum(not row["tokens"] for row in part)
        found[table].append({**about, "labels": len(part), "left_out": left_out, **mean_of_rows(part)})
    return found


def _label(decisions: Mapping[str, Decision], name: str) -> str:
    return (decisions[name].label if name in decisions else None) or ""


def _sample(record: Record) -> ResponseRecord:
    return ResponseRecord(record["prompt"], record.get("response") or record["chosen"], where=record["where"])


def _take(rows: Iterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    return [next(rows) for _ in range(count)]


def own_labels(votes: Mapping[str, Sequence[Vote]], rules: Rules) -> dict[str, str]:
    """The labels of one annotator.

    Args:
        votes: its votes by id.
        rules: say when labels are the same.

    Returns:
        By id; items on which it gave none, or two equally often, are not there.
    """
    found = {name: own_label(some, rules) for name, some in votes.items()}
    return {name: label for name, label in found.items() if label is not None}
