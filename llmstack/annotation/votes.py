"""From the labels automatic annotators give an item to one label, or to the reasons why a person should look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from llmstack.config.annotation import Task, UncertaintyConfig
from llmstack.evaluation.extract import Extractor

Why = Literal["no_label", "unreadable", "flip", "tie", "disagreement", "people_disagree"]
Same = Callable[[str, str], Fraction]
"""How far two labels are the same, from 0 to 1."""


@dataclass(frozen=True)
class Vote:
    """One label of one annotator.

    Attributes:
        label: response: the text; class: the label; preference: ``a`` or ``b``; None: it gave none.
        problem: why it gave none.
        flipped: it gave none because it prefers a place, not an answer.
    """

    label: str | None
    problem: str = ""
    flipped: bool = False


@dataclass(frozen=True)
class Decision:
    """What the votes on an item come to.

    Attributes:
        label: the best one; None: there is none.
        agreement: from 0 to 1, how far the votes are for it.
        annotators: those whose vote is, at least in part, for it.
        why: kind and words of each reason against taking it; empty: it is certain.
        candidates: labels with their share and their annotators, the best first.
    """

    label: str | None
    agreement: float
    annotators: tuple[str, ...]
    why: tuple[tuple[Why, str], ...]
    candidates: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Rules:
    """When votes are enough.

    Attributes:
        min_agreement: least agreement; None: any, but for a tie.
        parse_failures: whether an answer that could not be read sends the item to people.
        flips: the same for a judge that changes its mind when answers swap places.
        same: when labels are the same.
        has_ties: whether two labels with equally many votes are a tie; not where they may be nearly the same.
    """

    min_agreement: float | None
    parse_failures: bool
    flips: bool
    same: Same
    has_ties: bool = True


def rules_of(config: UncertaintyConfig, task: Task) -> Rules:
    """The rules of a configuration.

    Args:
        config: what sends an item to people.
        task: what kind of label is wanted.
    """
    same: Same = equal
    if task == "response":
        extractor = extractor_of(config)
        by_words = config.same == "words"
        same = _same_answer(extractor) if extractor is not None else word_f1 if by_words else equal_text
    return Rules(config.min_agreement, config.parse_failures, config.flips is not False, same, config.same != "words")


def extractor_of(config: UncertaintyConfig) -> Extractor | None:
    """What finds final answers; None: they do not matter.

    Args:
        config: what sends an item to people.
    """
    return Extractor(config.answer_pattern) if config.same == "final_answer" else None


def decide(votes: Mapping[str, Sequence[Vote]], rules: Rules) -> Decision:
    """The label the votes are for, and what speaks against it.

    Each annotator with a label has one vote, which its samples share evenly. The score of a label is the sum over all
    votes of how far they are the same as it; the best has the highest. For labels that are the same or not, that is
    the majority, and its score the majority's share (self-consistency, Wang et al. 2022); for word overlap it is the
    answer nearest to all others (minimum Bayes risk, Kumar & Byrne 2004). Of equal scores the first counts.

    Args:
        votes: by annotator, in the order of the configuration.
        rules: when they are enough.

    Returns:
        What they come to.
    """
    voters = {name: [vote.label for vote in some if vote.label is not None] for name, some in votes.items()}
    voters = {name: labels for name, labels in voters.items() if labels}
    ballots = [
        (name, label, Fraction(1, len(voters) * len(labels))) for name, labels in voters.items() for label in labels
    ]
    why = _complaints(votes, rules)
    if not ballots:
        return Decision(None, 0.0, (), tuple(why or [("no_label", "no automatic label")]), ())
    groups = _groups(ballots, rules.same)
    best = max(groups, key=lambda group: group.score)
    if rules.has_ties and sum(group.score == best.score for group in groups) > 1:
        why.append(("tie", "as many votes for another label"))
    elif rules.min_agreement is not None and best.score < Fraction(str(rules.min_agreement)):
        why.append(("disagreement", f"agreement {float(best.score):.2f} is below {rules.min_agreement:g}"))
    ranked = sorted(groups, key=lambda group: -group.score)
    return Decision(
        best.label,
        float(best.score),
        tuple(best.annotators),
        tuple(why),
        tuple(
            {"label": group.label, "share": round(float(group.score), 4), "annotators": group.annotators}
            for group in ranked
        ),
    )


@dataclass
class _Group:
    label: str
    score: Fraction
    annotators: list[str]


def _groups(ballots: Sequence[tuple[str, str, Fraction]], same: Same) -> list[_Group]:
    """Labels that are wholly the same, each with its score."""
    groups: list[_Group] = []
    for name, label, _ in ballots:
        group = next((group for group in groups if same(group.label, label) == 1), None)
        if group is None:
            score = sum((weight * same(label, other) for _, other, weight in ballots), Fraction(0))
            groups.append(group := _Group(label, score, []))
        if name not in group.annotators:
            group.annotators.append(name)
    return groups


def _complaints(votes: Mapping[str, Sequence[Vote]], rules: Rules) -> list[tuple[Why, str]]:
    found: list[tuple[Why, str]] = []
    for name, some in votes.items():
        for vote in some:
            if vote.flipped and rules.flips:
                found.append(("flip", f"{name} prefers a place: {vote.problem}"))
            elif vote.problem and not vote.flipped and rules.parse_failures:
                found.append(("unreadable", f"{name}: {vote.problem}"))
    return list(dict.fromkeys(found))


def own_label(votes: Sequence[Vote], rules: Rules) -> str | None:
    """The label one annotator's samples are for, to be compared with another's.

    Args:
        votes: of one annotator on one item.
        rules: say when labels are the same.

    Returns:
        The label; None: it gave none, or two equally often.
    """
    lenient = replace(rules, min_agreement=None, parse_failures=False, flips=False)
    found = decide({"": votes}, lenient)
    return None if found.why else found.label


def equal(first: str, second: str) -> Fraction:
    """1 for the same label, else 0.

    Args:
        first: a label.
        second: another.
    """
    return Fraction(first == second)


def equal_text(first: str, second: str) -> Fraction:
    """1 for texts that differ at most in case and blanks, else 0.

    Args:
        first: a text.
        second: another.
    """
    return Fraction(plain(first) == plain(second))


def word_f1(first: str, second: str) -> Fraction:
    """Overlap of words, each as often as it occurs (F1 as in Rajpurkar et al. 2016, section 6.1).

    ``2 c / (m + n)`` with c the words two texts have in common, m and n those they have; case and the signs around a
    word do not count. Two texts without a word are the same.

    Args:
        first: a text.
        second: another.
    """
    ours, theirs = Counter(_words(first)), Counter(_words(second))
    total = ours.total() + theirs.total()
    return Fraction(2 * (ours & theirs).total(), total) if total else Fraction(1)


def _same_answer(extractor: Extractor) -> Same:
    def same(first: str, second: str) -> Fraction:
        return Fraction(extractor.find(first) == extractor.find(second))

    return same


def plain(text: str) -> str:
    """A text without what does not tell it from another: case, and how many blanks there are.

    Args:
        text: any.
    """
    return " ".join(text.casefold().split())


def _words(text: str) -> list[str]:
    stripped = (word.strip(".,;:!?\"'()[]{}*_`") for word in text.casefold().split())
    return [word for word in stripped if word]
