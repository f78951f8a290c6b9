"""Asks one annotator about many items: samples, both orders of a pair, and once more where no label could be read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmstack.annotation.annotator import AutomaticAnnotator
from llmstack.annotation.items import Item
from llmstack.annotation.requests import Phrasing, Reply, Request, Unreadable
from llmstack.annotation.votes import Vote

Annotator = AutomaticAnnotator[Any]


@dataclass
class Tally:
    """How an annotator answered.

    Attributes:
        again: answers that could not be read and were asked for once more.
        unreadable: labels that could not be read even so.
        flips: pairs of which it preferred a place.
        pairs: pairs it was asked about in both orders, and answered.
        first_place: answers, of two a pair, for the answer shown first.
    """

    again: int = 0
    unreadable: int = 0
    flips: int = 0
    pairs: int = 0
    first_place: int = 0


@dataclass
class _Question:
    """One request about an item, and the label or the problem it came to."""

    item: Item
    request: Request
    swapped: bool
    label: str | None = None
    problem: str = ""
    reply: Reply | None = field(default=None)


def ask_about(
    annotator: Annotator, items: Sequence[Item], phrasing: Phrasing, *, kept_only: Collection[str] = ()
) -> tuple[dict[str, list[Vote]], Tally]:
    """Votes of one annotator.

    Args:
        annotator: who is asked.
        items: the items.
        phrasing: how they are put.
        kept_only: ids of items it is not asked about: only answers that are there from before count. One of which not
            all are there has no votes.

    Returns:
        Votes by id of the item, one a sample, and counts.

    Raises:
        UserError: the annotator cannot go on.
    """
    tally, votes = Tally(), {}
    for only in (False, True):
        some = [item for item in items if (item.id in kept_only) is only]
        questions = [
            _Question(item, phrasing.request(item, sample=sample, swapped=swapped), swapped)
            for item in some
            for sample in range(annotator.config.samples)
            for swapped in phrasing.orders
        ]
        _answer(annotator, questions, phrasing, kept_only=only)
        tally.again += _ask_again(annotator, questions, phrasing, kept_only=only)
        size = annotator.config.samples * len(phrasing.orders)
        for place, item in enumerate(some):
            about = questions[place * size : (place + 1) * size]
            if all(question.reply is not None for question in about):
                votes[item.id] = _votes(about, len(phrasing.orders), tally)
    return votes, tally


def _answer(annotator: Annotator, questions: Sequence[_Question], phrasing: Phrasing, *, kept_only: bool) -> None:
    replies = annotator.answers([question.request for question in questions], kept_only=kept_only)
    for question, reply in zip(questions, replies, strict=True):
        question.reply = reply
        if reply is None:
            continue
        try:
            question.label, question.problem = phrasing.read(reply, swapped=question.swapped), ""
        except Unreadable as error:
            question.label, question.problem = None, str(error)


def _ask_again(annotator: Annotator, questions: Sequence[_Question], phrasing: Phrasing, *, kept_only: bool) -> int:
    """Puts a reminder behind each answer that could not be read, once."""
    following = []
    for question in questions:
        if question.reply is None or question.label is not None:
            continue
        request = phrasing.again(question.request, question.reply, question.problem)
        if request is not None:
            question.request = request
            following.append(question)
    _answer(annotator, following, phrasing, kept_only=kept_only)
    return len(following)


def _votes(about: Sequence[_Question], num_orders: int, tally: Tally) -> list[Vote]:
    votes = []
    for start in range(0, len(about), num_orders):
        sides = about[start : start + num_orders]
        problem = next((side.problem for side in sides if side.label is None), "")
        labels = {side.label for side in sides}
        if num_orders == 2 and not problem:
            tally.pairs += 1
            # the answer shown first is a, and b when they have swapped places
            tally.first_place += sum((side.label == "b") is side.swapped for side in sides)
        if problem:
            tally.unreadable += 1
            votes.append(Vote(None, problem))
        elif len(labels) > 1:
            tally.flips += 1
            place = "first" if sides[0].label == "a" else "second"
            votes.append(Vote(None, f"the answer shown {place}", flipped=True))
        else:
            votes.append(Vote(sides[0].label))
    return votes
