"""A corpus with planted faults, from a seeded generator and word lists of our own; and short ways to run steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmstack.data.clean.step import CorpusStep, Document, Outcome, Step

ADJECTIVES = (
    "amber brisk calm damp eager faint gentle hollow idle jagged keen loyal mellow narrow open plain quiet rough "
    "silver tidy upper vivid warm young zesty broad clever distant early frozen"
).split()
NOUNS = (
    "anchor barrel canyon dealer engine farmer garden harbour island jacket kettle ladder market needle orchard "
    "pilot quarry river saddle teacher umbrella valley wagon yard bridge carpet doctor feather gallery hammer"
).split()
VERBS = (
    "admired borrowed carried described examined followed gathered handled ignored joined kept lifted measured "
    "noticed offered painted questioned repaired searched traded used visited watched wrapped crossed drew"
).split()
PLACES = "north south harbour hill forest village station tower mill coast ridge lake meadow castle".split()
TAILS = ("before noon", "without haste", "in May", "again", "for weeks", "as agreed", "on foot", "at dawn")
FORMS = (
    "The {a} {n} {v} the {m} of the {p} and {w} a {b} {o} {t}.",
    "A {n} from the {p} {v} every {a} {m}, but no {o} {w} it {t}.",
    "With the {a} {n} gone, our {m} {v} that {b} {o} and {w} another {t}.",
    "Nobody {v} the {n} or the {a} {m} {t}, so to be {b} some {o} {w} the {p}.",
    "{t} they {v} this {n} near a {a} {p} and have {w} both {m} and {o}.",
)
BOILERPLATE = (
    "Sign up for our weekly letter and never miss a story.",
    "All rights reserved by the owners of this page, 2024.",
    "Share this article with friends and family today.",
)
LEFT_ALONE = (
    "order 1234567890123456 arrived on 2023-01-02 at 12:30:45",
    "the card 4111 1111 1111 1112 was refused, and account DE90 3704 0044 0532 0130 00 is wrong",
    "the router is 192.168.0.1, the loopback 127.0.0.1, the example 2001:db8::1",
    "std::vector and a::b in version 10.4.2 of the library, pi is 3.14159265358979",
    "meet me@home or see the ISBN 978-3-16-148410-0",
)
PERSONAL = {
    "e-mail address": ("jo.smith+news@mail.example.org", "a_b@sub.example.co.uk", "Info@example.com"),
    "account number": ("DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "NO9386011117947"),
    "card number": ("4111 1111 1111 1111", "5500-0000-0000-0004", "340000000000009"),
    "IP address": ("8.8.8.8", "2001:4860:4860::8888", "2606:4700:4700:0:0:0:0:1111"),
    "phone number": ("+44 20 7946 0958", "(212) 736-5000", "+49 30 901820", "020 7946 0958"),
}
"""Numbers that are published as examples, and public name servers."""


class Writer:
    """Writes English-like sentences.

    Args:
        seed: of everything.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def sentence(self) -> str:
        """About fifteen words."""
        pick = self.rng.choice
        words = {"a": ADJECTIVES, "b": ADJECTIVES, "n": NOUNS, "m": NOUNS, "o": NOUNS, "v": VERBS, "w": VERBS}
        chosen = {key: pick(options) for key, options in words.items()}
        text = pick(FORMS).format(**chosen, p=pick(PLACES), t=pick(TAILS))
        return text[0].upper() + text[1:]

    def sentences(self, count: int) -> list[str]:
        return [self.sentence() for _ in range(count)]

    def lines(self, count: int = 12) -> list[str]:
        """Lines of one sentence each: about 200 words."""
        return self.sentences(count)

    def edited(self, text: str, changes: int) -> str:
        """The text with some words replaced by new ones."""
        words = text.split(" ")
        for place in self.rng.sample(range(len(words)), changes):
            words[place] = f"edited{self.rng.randrange(10**6)}"
        return " ".join(words)


@dataclass
class Planted:
    """Texts, and the numbers of those that something was planted in."""

    texts: list[str]
    planted: set[int]


def with_copies(seed: int, *, originals: int, copies: int, edits: int) -> Planted:
    """Originals, half copies of some of them, which are no duplicates, and edited copies of some."""
    writer = Writer(seed)
    texts = ["\n".join(writer.lines()) for _ in range(originals)]
    for number in range(copies):  # half the lines are those of an original: similarity 1/3
        texts.append("\n".join([*texts[number].split("\n")[:6], *writer.lines(6)]))
    planted = set()
    for number in writer.rng.sample(range(originals), copies):
        planted.add(len(texts))
        texts.append(writer.edited(texts[number], edits) if edits else f" {texts[number].upper()}\n\n")
    return Planted(texts, planted)


def with_boilerplate(seed: int, *, originals: int, planted: int) -> Planted:
    """Documents, some of which have boilerplate lines between theirs."""
    writer = Writer(seed)
    texts, found = [], set()
    for number in range(originals):
        lines = writer.lines()
        if number < planted:
            found.add(number)
            for line in BOILERPLATE:
                lines.insert(writer.rng.randrange(len(lines) + 1), line)
        texts.append("\n".join(lines))
    return Planted(texts, found)


def with_contamination(seed: int, questions: Sequence[str], *, originals: int) -> Planted:
    """Documents, and behind them one for each question with it in the middle, in capitals and without punctuation."""
    writer = Writer(seed)
    texts = ["\n".join(writer.lines()) for _ in range(originals)]
    planted = set()
    for question in questions:
        planted.add(len(texts))
        asked = question.upper().replace(".", "").replace(",", " ")
        texts.append("\n".join([*writer.lines(5), asked, *writer.lines(5)]))
    return Planted(texts, planted)


def document(text: str, number: int = 0) -> Document:
    return Document(number, f"file:{number + 1}", text)


def outcome(step: Step, text: str) -> Outcome:
    return step.apply(document(text))


def outcomes(step: CorpusStep, texts: Sequence[str], *, batch: int = 7) -> list[Outcome]:
    """What a corpus step makes of texts, given to it in batches."""
    documents = [document(text, number) for number, text in enumerate(texts)]
    for start in range(0, len(documents), batch):
        part = documents[start : start + batch]
        step.collect(np.array([item.number for item in part]), [step.scan(item) for item in part])
    decided = step.decide().step
    return [decided.apply(item) for item in documents]


def dropped(found: Sequence[Outcome]) -> set[int]:
    return {number for number, item in enumerate(found) if item.text is None}


def precision_and_recall(found: set[int], planted: set[int]) -> tuple[float, float]:
    """Shares of what was found that was planted, and of what was planted that was found."""
    right = len(found & planted)
    return right / len(found), right / len(planted)
