"""What a run found, for programs and for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from llmstack.annotation.annotator import Usage
from llmstack.annotation.asking import Tally
from llmstack.config.annotation import PriceConfig

Report = dict[str, Any]


def annotator_row(kind: str, usage: Usage, tally: Tally, price: PriceConfig | None) -> Report:
    """What an automatic annotator did and cost.

    Args:
        kind: its kind.
        usage: requests and tokens.
        tally: how it answered.
        price: of a million tokens; None: its cost is not counted.

    Returns:
        Counts, ``cost_new`` (of this run) and ``cost`` (of all answers in use), None without a price, and
        ``first_place_ratio``, the share of answers for what was shown first; None without pairs.
    """
    found = {"kind": kind, **asdict(usage), **asdict(tally), "cost_new": None, "cost": None}
    if price is not None:
        found["cost_new"] = (usage.new_input_tokens * price.input + usage.new_output_tokens * price.output) / 1e6
        found["cost"] = (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1e6
    found["first_place_ratio"] = tally.first_place / (2 * tally.pairs) if tally.pairs else None
    return found


def summary(report: Report) -> str:
    """The same in a few lines for the terminal.

    Args:
        report: of :func:`llmstack.annotation.loop.annotate`.
    """
    lines = [("items", _items(report))]
    lines += [(name, _annotator(row)) for name, row in report["annotators"].items()]
    lines += [(name, _people(row)) for name, row in report["people"].items()]
    counts = report["records"]
    parts = [f"{counts[source]} {source}" for source in counts if source != "total" and counts[source]]
    lines.append(("records", f"{counts['total']} in {report['files']['records']}{_listed(parts)}"))
    why = [f"{count} {kind}" for kind, count in report["queue"]["why"].items()]
    lines.append(("queue", f"{report['queue']['total']} in {report['files']['queue']}{_listed(why)}"))
    lines += [("agreement", _agreement(row)) for row in report["agreement"]]
    for row in (report["perplexity"] or {}).get("sources", ()):
        lines.append(("perplexity", f"{number(row['perplexity'])} of {_many(row['labels'], row['source'] + ' label')}"))
    lines.append(("report", report["files"]["report"]))
    width = max(len(name) for name, _ in lines) + 2
    text = "".join(f"{name:<{width}}{about}\n" for name, about in lines)
    return text + ("" if report["queue"]["total"] == 0 else "Fill in `label` in the queue, then run this again.\n")


def markdown(report: Report) -> str:
    """The same as a page.

    Args:
        report: of :func:`llmstack.annotation.loop.annotate`.
    """
    counts, queue = report["records"], report["queue"]
    parts = [
        f"# Labels: task {report['task']}\n",
        f"{_items(report)}.\n",
        "## Records\n",
        _table(("label source", "records"), counts.items()),
        "## Queue\n",
        f"Items that wait for people: {queue['total']}; thrown out by them: {report['discarded']}.\n",
        _table(("reason", "items"), queue["why"].items()),
        "## Automatic annotators\n",
        _annotators(report["annotators"]),
        "## People\n",
        _table(
            ("file", "labels", "rows without one", "not in the data"),
            [(name, row["labels"], row["open"], row["not_in_data"]) for name, row in report["people"].items()],
        ),
        "## Agreement\n",
        _table(
            ("first", "second", "items", "equal", "kappa"),
            [
                (row["first"], row["second"], row["items"], number(row["raw"]), number(row["kappa"]))
                for row in report["agreement"]
            ],
        ),
        "The queue holds the items annotators were unsure of: agreement with it says how they do on those.\n",
        *_confusions(report["agreement"]),
        *_perplexity(report["perplexity"]),
    ]
    return "\n".join(part for part in parts if part)


def number(value: float | None) -> str:
    """A number for people; ``-`` where there is none.

    Args:
        value: the number.
    """
    return (
        "-"
        if value is None
        else f"{value:.3g}"
        if abs(value) < 0.01 and value
        else f"{value:,.3f}".rstrip("0").rstrip(".")
    )


def _items(report: Report) -> str:
    parts = [f"{_many(report['duplicates'], 'duplicate')} left out"] if report["duplicates"] else []
    if report["equal_answers"]:
        parts.append(f"{report['equal_answers']} with equal answers left out")
    return f"{_many(report['items'], 'item')}{_listed(parts)}"


def _annotator(row: Mapping[str, Any]) -> str:
    parts = [_many(row["new"], "request"), f"{_many(row['kept'], 'answer')} kept from before"]
    if row["again"]:
        parts.append(f"{row['again']} asked again")
    if row["unreadable"]:
        parts.append(f"{row['unreadable']} unreadable")
    if row["flips"]:
        parts.append(f"{row['flips']} of {row['pairs']} pairs flipped")
    parts.append(f"{row['new_input_tokens']:,} + {row['new_output_tokens']:,} tokens")
    if row["cost"] is not None:
        parts.append(f"cost {number(row['cost_new'])} (in all {number(row['cost'])})")
    return ", ".join(parts)


def _people(row: Mapping[str, Any]) -> str:
    extra = f", {row['not_in_data']} of them for items that are not in the data" if row["not_in_data"] else ""
    waiting = f", {_many(row['open'], 'row')} without one" if row["open"] else ""
    return f"{_many(row['labels'], 'label')}{extra}{waiting}"


def _agreement(row: Mapping[str, Any]) -> str:
    return (
        f"{row['first']} and {row['second']}: kappa {number(row['kappa'])}, {number(row['raw'])} equal, "
        f"on {_many(row['items'], 'item')}"
    )


def _listed(parts: Sequence[str]) -> str:
    return f": {', '.join(parts)}" if parts else ""


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _annotators(rows: Mapping[str, Mapping[str, Any]]) -> str:
    head = ("annotator", "kind", "requests", "kept", "asked again", "unreadable", "input tokens", "output tokens")
    shown = [
        (name, row["kind"], row["new"], row["kept"], row["again"], row["unreadable"],
         f"{row['input_tokens']:,}", f"{row['output_tokens']:,}", number(row["cost_new"]), number(row["cost"]),
         f"{row['flips']}/{row['pairs']}", number(row["first_place_ratio"]))
        for name, row in rows.items()
    ]  # fmt: skip
    table = _table((*head, "cost of this run", "cost in all", "flips", "first place"), shown)
    untold = sum(row["untold"] for row in rows.values())
    return table + (
        f"\nAnswers without their number of tokens, which are not in the cost: {untold}.\n" if untold else ""
    )


def _confusions(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    found = []
    for row in rows:
        if row["confusion"]:
            names = sorted({*row["confusion"], *(name for line in row["confusion"].values() for name in line)})
            lines = [(name, *(row["confusion"].get(name, {}).get(other, 0) for other in names)) for name in names]
            found.append(_table((f"{row['first']} \\ {row['second']}", *names), lines))
    return found


def _perplexity(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    head = ("labels", "left out", "tokens", "nll", "perplexity")

    def cells(row: Mapping[str, Any]) -> tuple[object, ...]:
        return (row["labels"], row["left_out"], row["tokens"], number(row["nll"]), number(row["perplexity"]))

    return [
        f"## Perplexity of the labels under {found['model']}\n",
        _table(("source", *head), [(row["source"], *cells(row)) for row in found["sources"]]),
        "The same items, with the labels of people and those automatic annotators gave:\n",
        _table(
            ("items of", "labels by", *head),
            [(row["items_of"], row["labels_by"], *cells(row)) for row in found["same_items"]],
        ),
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [" | ".join(_cell(value) for value in row) for row in rows]
    if not lines:
        return "None.\n"
    rule = " | ".join("---" for _ in head)
    return "".join(f"| {line} |\n" for line in (" | ".join(map(_cell, head)), rule, *lines))


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
