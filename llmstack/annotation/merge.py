"""Puts labels of people and of annotators together: a record for each item with a label, a row of the queue else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from llmstack.annotation.items import Item
from llmstack.annotation.people import HumanLabel, texts_of
from llmstack.annotation.votes import Decision
from llmstack.config.annotation import QUEUE, Task

LabelSource = Literal["human", "automatic", "semi_automatic"]
SOURCES: tuple[LabelSource, ...] = ("human", "automatic", "semi_automatic")
"""Where a label is from: a person's file; annotators that were certain; a person, because they were not."""


@dataclass
class Merged:
    """What is written.

    Attributes:
        records: rows that stages read.
        queue: rows for people.
        sources: records by where their label is from.
        why: rows of the queue by reason; a row may have several.
        discarded: items that people threw out.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    queue: list[dict[str, Any]] = field(default_factory=list)
    sources: Counter[str] = field(default_factory=Counter)
    why: Counter[str] = field(default_factory=Counter)
    discarded: int = 0


def merge(
    items: Sequence[Item],
    task: Task,
    *,
    people: Mapping[str, Mapping[str, HumanLabel]],
    queued: Mapping[str, HumanLabel],
    decisions: Mapping[str, Decision],
) -> Merged:
    """One label an item, from whom it is best had.

    A label from the queue counts before all others, because it was given to settle the item; then those of people's
    files, when they are of one mind; then that of automatic annotators, when it is certain. No label of a person is
    ever replaced by an automatic one.

    Args:
        items: all of them.
        task: what kind of label they have.
        people: labels of people's files, by annotator and id.
        queued: labels from the queue, by id.
        decisions: what automatic annotators came to, by id.

    Returns:
        Records and queue, in the order of the items.
    """
    merged = Merged()
    for item in items:
        said = {name: labels[item.id].about(item) for name, labels in people.items() if item.id in labels}
        if item.id in queued:
            _settle(merged, item, task, "semi_automatic", {QUEUE: queued[item.id].about(item)})
        elif said and (task == "response" or len({one.label for one in said.values()}) == 1):
            # of several people's responses to one prompt none is wrong: the first annotator's is taken
            _settle(merged, item, task, "human", said)
        elif said:
            _enqueue(merged, item, _people_disagree(said))
        elif item.id in decisions and not decisions[item.id].why and decisions[item.id].label is not None:
            decision = decisions[item.id]
            about = {"annotators": list(decision.annotators), "agreement": round(decision.agreement, 4)}
            _record(merged, item, task, str(decision.label), "automatic", about)
        else:
            _enqueue(merged, item, decisions.get(item.id, _NOBODY))
    return merged


_NOBODY = Decision(None, 0.0, (), (("no_label", "no automatic annotator"),), ())


def _settle(merged: Merged, item: Item, task: Task, source: LabelSource, said: Mapping[str, HumanLabel]) -> None:
    label = next((one.label for one in said.values() if one.label is not None), None)
    if label is None:
        merged.discarded += 1
        return
    names = [name for name, one in said.items() if one.label == label]
    _record(merged, item, task, label, source, {"annotators": names})


def _record(
    merged: Merged, item: Item, task: Task, label: str, source: LabelSource, about: Mapping[str, object]
) -> None:
    provenance = {"label_source": source, **about, "id": item.id, "where": item.where}
    merged.records.append({**record_of(item, task, label), **provenance})
    merged.sources[source] += 1


def record_of(item: Item, task: Task, label: str) -> dict[str, str]:
    """An item and its label as a stage reads them.

    Args:
        item: the item.
        task: what kind of label it has.
        label: the label.

    Returns:
        ``prompt, chosen, rejected`` for preferences, else ``prompt, response``.
    """
    if task != "preference":
        return {"prompt": item.prompt, "response": label}
    worse = "b" if label == "a" else "a"
    return {"prompt": item.prompt, "chosen": item.answer(label), "rejected": item.answer(worse)}


def _enqueue(merged: Merged, item: Item, decision: Decision) -> None:
    merged.queue.append(
        {
            "id": item.id,
            **texts_of(item),
            "candidates": list(decision.candidates),
            "why": [text for _, text in decision.why],
            "label": "",
            "discard": False,
            "where": item.where,
        }
    )
    merged.why.update(dict.fromkeys(kind for kind, _ in decision.why).keys())


def _people_disagree(said: Mapping[str, HumanLabel]) -> Decision:
    by_label: dict[str, list[str]] = {}
    for name, one in said.items():
        by_label.setdefault("(thrown out)" if one.label is None else one.label, []).append(name)
    candidates = tuple(
        {"label": label, "share": round(len(names) / len(said), 4), "annotators": names}
        for label, names in by_label.items()
    )
    text = "; ".join(f"{', '.join(names)}: {label}" for label, names in by_label.items())
    return Decision(None, 0.0, (), (("people_disagree", text),), candidates)
