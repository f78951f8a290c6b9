from __future__ import annotations

import pytest

from llmstack.config.clean import GopherQualityConfig
from llmstack.data.clean import gopher_quality as rules
from llmstack.data.clean.gopher_quality import GopherQuality
from tests.unit.data.clean.corpus import Writer, outcome

OFF = {key: None for key in GopherQualityConfig.model_fields if key.startswith(("min_", "max_"))}


def judged(text: str, **options) -> str:
    """The reason why a text is dropped by some of the rules alone; empty when it is kept."""
    found = outcome(GopherQuality(GopherQualityConfig(kind="gopher_quality", **(OFF | options)), seed=0), text)
    assert (found.text == text) is (found.reason == "")
    return found.reason


PAPER = GopherQualityConfig(kind="gopher_quality")


def at_limit(key: str):
    """The paper's limit of a rule, as an option."""
    return {key: getattr(PAPER, key)}


@pytest.mark.parametrize(
    ("key", "kept", "dropped", "reason"),
    [
        # the limit itself passes, one more or less does not
        ("min_words", "a " * 50, "a " * 49, "fewer than 50 words"),
        ("max_words", "a " * 100_000, "a " * 100_001, "more than 100000 words"),
        ("min_mean_word_chars", "abc abc", "abc ab", "words too short"),
        ("max_mean_word_chars", "a" * 9 + " " + "a" * 11, "a" * 10 + " " + "a" * 11, "words too long"),
        ("max_symbols_per_word", "word " * 9 + "#word", "word " * 8 + "#word #", "too many hash signs"),
        ("max_symbols_per_word", "word " * 9 + "word...", "word " * 8 + "word...", "too many ellipses"),
        ("max_symbols_per_word", "word " * 9 + "word…", "word… " * 2 + "word " * 8, "too many ellipses"),
        ("max_bullet_line_ratio", "- a\n" * 9 + "b", "- a\n" * 19 + "b", "too many bullet points"),
        ("max_ellipsis_line_ratio", "a...\n" * 3 + "b\n" * 7, "a…\n" * 4 + "b\n" * 6, "too many lines cut off"),
        ("min_alphabetic_word_ratio", "a b c d 1", "a b c d 1 2", "too few words with letters"),
        ("min_stop_words", "The cat AND dog", "the cat, the dog", "too few stop words"),
    ],
)
def test_each_rule_at_the_limit_of_the_paper(key, kept, dropped, reason):
    assert judged(kept, **at_limit(key)) == ""
    assert judged(dropped, **at_limit(key)) == reason
    assert judged(dropped) == ""  # with the rule off


def test_values_by_hand():
    words = ["ab", "abcd", "12", "a-1"]
    assert rules.mean_word_chars(words) == 11 / 4
    assert rules.symbols_per_word("# a ## b", 4, ("#",)) == 3 / 4
    assert rules.symbols_per_word("a... b… c..", 3, rules.ELLIPSES) == 2 / 3
    assert rules.bullet_line_ratio(["• a", "- b", "c", "*d"]) == 3 / 4
    assert rules.ellipsis_line_ratio(["a...", "b…", "c.", "..."]) == 3 / 4
    assert rules.alphabetic_word_ratio(words) == 3 / 4
    assert rules.count_stop_words(["The", "the,", "(to)", "toto"], ("the", "to", "of")) == 2


def test_a_text_without_words_is_dropped():
    assert judged(" \n ") == "no words"


def test_other_stop_words_can_be_given():
    assert judged("der Hund und die Katze", min_stop_words=2, stop_words=["der", "und"]) == ""


def test_prose_passes_all_rules():
    writer = Writer(2)
    step = GopherQuality(PAPER, seed=0)
    assert all(outcome(step, "\n".join(writer.lines())).text for _ in range(50))
