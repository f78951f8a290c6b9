"""Preference pairs on style: the same summary in PEP 257's style and in one of the ways authors miss it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from llmstack.data.stdlib.style import MAX_SUMMARY_CHARS, is_pep257, leading_verb
from llmstack.data.stdlib.summaries import Summary
from llmstack.data.stdlib.verbs import BASE_FORM, VERBS, third_person

PAIRS_PER_SUMMARY = 3


@dataclass(frozen=True)
class StylePair:
    """Two wordings of one summary.

    Attributes:
        summary: the author's, with its signature.
        chosen: in style.
        rejected: not in style.
        violation: which way the rejected one misses it; ``original`` when it is the author's own wording.
    """

    summary: Summary
    chosen: str
    rejected: str
    violation: str


def style_pairs(summaries: Iterable[Summary], *, seed: int) -> Iterator[StylePair]:
    """Pairs for every summary that is in style or can be brought into it.

    A summary in style is the chosen side against versions spoiled in different ways. One out of style, when it can be
    repaired by its words alone, is itself the first rejected side of its repaired wording.

    Args:
        summaries: signatures with the authors' wordings.
        seed: decides which violations a summary gets and how they are worded.

    Yields:
        Up to ``PAIRS_PER_SUMMARY`` pairs a summary, each with another violation.
    """
    for summary in summaries:
        # a string seeds the generator by its hash: one summary's pairs do not depend on the others
        rng = random.Random(f"{seed}\0{summary.signature}\0{summary.text}")
        good = is_pep257(summary.text)
        chosen = summary.text if good else repair(summary.text)
        if chosen is None:
            continue
        spoiled = _spoiled(chosen, summary, rng)
        if not good:
            spoiled = [("original", summary.text), *spoiled]
        used = {chosen}
        for violation, rejected in spoiled[:PAIRS_PER_SUMMARY]:
            if rejected not in used:
                used.add(rejected)
                yield StylePair(summary, chosen, rejected, violation)


def _spoiled(chosen: str, summary: Summary, rng: random.Random) -> list[tuple[str, str]]:
    """Every violation that can be worked into a summary, in random order."""
    made = []
    for name, spoil in _SPOILERS.items():
        text = spoil(chosen, summary, rng)
        if text is not None and not is_pep257(text):
            made.append((name, text))
    rng.shuffle(made)
    return made


def repair(text: str) -> str | None:
    """Bring a summary into style where its own words allow it.

    Lines are joined, of several sentences the first is kept, "Returns" and "This function returns" become "Return",
    "True if" becomes "Return True if", the first letter a capital, and a missing full stop is added.

    Args:
        text: a summary out of style.

    Returns:
        The repaired summary, or None when that takes more than such changes.
    """
    line = " ".join(text.split())
    sentence = re.match(r"(.+?\.)(?: |$)", line)
    # an abbreviation or a version number is no end of a sentence
    if sentence and not re.search(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|[A-Z0-9])|\.)\.$", sentence.group(1)):
        line = sentence.group(1)
    line = line.rstrip(" ;:,")
    opening = re.match(r"(?:This|The) (?:function|method|routine|call) (?:also )?(\w+)\b", line, re.IGNORECASE)
    if opening and opening.group(1).lower() in BASE_FORM:
        line = line[opening.start(1) :]
    if re.match(r"(?:True|False|Whether)\b", line):
        line = "Return " + (line if line.startswith(("True", "False")) else line[0].lower() + line[1:])
    words = line.split(" ")
    verb = words[0].lower()
    if verb in BASE_FORM and verb not in VERBS:
        words[0] = BASE_FORM[verb]
    line = " ".join(words)
    line = line[:1].upper() + line[1:]
    if line and line[-1].isalnum() or line.endswith((")", "'", '"', "`", "*")):
        line += "."
    return line if is_pep257(line) else None


def _verb_and_rest(text: str) -> tuple[str, str, str]:
    """A sentence in style as (adverb with its space or nothing, verb in lower case, the rest with its space)."""
    words = text.split(" ")
    place = leading_verb(text.split()) or 0
    adverb = "".join(word.lower() + " " for word in words[:place])
    return adverb, words[place].lower(), "".join(" " + word for word in words[place + 1 :])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _third(verb: str) -> str:
    """Third person of a verb that may carry a comma: ``"open,"`` -> ``"opens,"``."""
    bare = verb.rstrip(",.:;")
    return third_person(bare) + verb[len(bare) :]


def _third_person(text: str, summary: Summary, rng: random.Random) -> str:
    adverb, verb, rest = _verb_and_rest(text)
    return _maybe_no_stop(_capital(f"{adverb}{_third(verb)}{rest}"), rng)


def _this_function(text: str, summary: Summary, rng: random.Random) -> str:
    adverb, verb, rest = _verb_and_rest(text)
    noun = "method" if summary.signature.startswith("class ") else "function"
    opening = rng.choice(
        (f"This {noun} {adverb}{_third(verb)}", f"This {adverb}{_third(verb)}", f"Used to {adverb}{verb}")
    )
    return _maybe_no_stop(opening + rest, rng)


def _noun_phrase(text: str, summary: Summary, rng: random.Random) -> str | None:
    adverb, verb, rest = _verb_and_rest(text)
    if verb in ("return", "get", "compute", "retrieve", "fetch", "calculate") and rest.startswith(
        (" the ", " a ", " an ", " True ", " whether ", " list ", " all ")
    ):
        return _maybe_no_stop(_capital(rest.strip()), rng)
    noun = rng.choice(("Helper", "Function", "Utility", "Convenience function"))
    return _maybe_no_stop(f"{noun} to {adverb}{verb}{rest}", rng)


def _lower_case(text: str, summary: Summary, rng: random.Random) -> str:
    return _maybe_no_stop(text[0].lower() + text[1:], rng)


def _no_full_stop(text: str, summary: Summary, rng: random.Random) -> str:
    return text[:-1]


def _cut_short(text: str, summary: Summary, rng: random.Random) -> str | None:
    """A sentence that stops in the middle."""
    words = text.split(" ")
    return " ".join(words[: rng.randrange(3, len(words))]).rstrip(".,;:") if len(words) > 4 else None


def _several_lines(text: str, summary: Summary, rng: random.Random) -> str | None:
    """The summary runs on over a line break, or straight into the next paragraph."""
    following = _first_line(summary.rest)
    if following and rng.random() < 0.5:
        return f"{text}\n{following}"
    spaces = [found.start() for found in re.finditer(" ", text)][1:]
    if not spaces:
        return None
    place = rng.choice(spaces[len(spaces) // 2 :])
    return f"{text[:place]}\n{text[place + 1 :]}"


def _too_long(text: str, summary: Summary, rng: random.Random) -> str | None:
    """One line beyond the width, going on with what the author wrote next."""
    following = " ".join(summary.rest.split("\n\n")[0].split())
    room = rng.randrange(MAX_SUMMARY_CHARS + 8, MAX_SUMMARY_CHARS + 48) - len(text) - 1
    if not following[:1].isupper() or len(text) + 1 + len(following) <= MAX_SUMMARY_CHARS:
        return None
    return f"{text} {following}" if len(following) <= room else f"{text} {following[:room].rpartition(' ')[0]}"


def _call_form(text: str, summary: Summary, rng: random.Random) -> str:
    """The old habit of repeating the call: ``name(arguments) -> what it gives``."""
    arguments = summary.signature.rpartition("def ")[2].partition("(")[2].rpartition(")")[0]
    names = [part.split("=")[0].split(":")[0].strip() for part in arguments.split(",")]
    shown = ", ".join(name for name in names if name.isidentifier() and name not in ("self", "cls"))
    if len(shown) > 30:
        shown = shown[:30].rpartition(", ")[0]
    arrow = rng.choice((" -> ", " --> ", ": "))
    return f"{summary.name}({shown}){arrow}{text[0].lower()}{text[1:]}"


def _first_line(text: str) -> str:
    line = text.partition("\n")[0].strip()
    return line if line[:1].isupper() else ""


def _maybe_no_stop(text: str, rng: random.Random) -> str:
    """Authors who miss one rule often miss the full stop as well."""
    return text[:-1] if rng.random() < 0.3 else text


_SPOILERS: dict[str, Callable[[str, Summary, random.Random], str | None]] = {
    "third_person": _third_person,
    "this_function": _this_function,
    "noun_phrase": _noun_phrase,
    "lower_case": _lower_case,
    "no_full_stop": _no_full_stop,
    "cut_short": _cut_short,
    "several_lines": _several_lines,
    "too_long": _too_long,
    "call_form": _call_form,
}
