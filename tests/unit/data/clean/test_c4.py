from __future__ import annotations

import pytest

from llmstack.config.clean import C4Config
from llmstack.data.clean.c4 import C4, ends_sentence, remove_citations
from llmstack.errors import DataError
from tests.unit.data.clean.corpus import Writer, outcome

OFF = {
    "terminal_punctuation": False,
    "min_line_words": None,
    "javascript_lines": False,
    "policy_lines": False,
    "citations": False,
    "lorem_ipsum": False,
    "curly_brackets": False,
    "min_sentences": None,
}


def judged(text: str, **options):
    return outcome(C4(C4Config(kind="c4", **(OFF | options)), seed=0), text)


@pytest.mark.parametrize(
    ("option", "text", "wanted"),
    [
        (
            {"terminal_punctuation": True},
            "A menu\nA sentence.\n\nOne more!\nTo be continued...",
            "A sentence.\n\nOne more!",
        ),
        ({"min_line_words": 5}, "one two three four five\none two three four", "one two three four five"),
        ({"javascript_lines": True}, "Turn on JavaScript, please.\nNot javascripting.", "Not javascripting."),
        (
            {"policy_lines": True},
            "This site uses cookies.\nRead our Terms of Use here.\nWe eat cookies.",
            "We eat cookies.",
        ),
        ({"citations": True}, "It is so.[1] Or not[citation needed]; see [a].[edit]", "It is so. Or not; see [a]."),
    ],
)
def test_lines_and_markers_are_removed(option, text, wanted):
    found = judged(text, **option)
    assert found.text == wanted
    assert sum(change.count for change in found.changes) > 0
    assert judged(text).text == text  # with the rule off


@pytest.mark.parametrize(
    ("option", "kept", "dropped", "reason"),
    [
        ({"lorem_ipsum": True}, "lorem and ipsum", "a Lorem Ipsum text", "lorem ipsum"),
        ({"curly_brackets": True}, "f(x) [y]", "f(x) { y }", "curly bracket"),
        ({"min_sentences": 3}, "One. Two! Three?", "One. Two 3.5 and more.", "fewer than 3 sentences"),
    ],
)
def test_documents_are_dropped(option, kept, dropped, reason):
    assert judged(kept, **option).text == kept
    assert judged(dropped, **option).reason == reason
    assert judged(dropped).text == dropped


def test_words_of_a_list_are_whole_words_and_phrases(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("darn\n\nblast it\n")
    found = judged("DARN that", bad_words=str(path))
    assert (found.reason, found.example) == ("a word of the list", "")
    assert judged("oh, blast it!", bad_words=str(path)).reason
    assert judged("darned blast", bad_words=str(path)).text
    path.write_text("\n")
    with pytest.raises(DataError, match=r"words\.txt: expected a word or phrase a line, got only empty files"):
        judged("text", bad_words=str(path))


def test_ends_of_sentences():
    assert all(map(ends_sentence, ("a.", "a!", "a?", 'a."', "a.”", "句。")))
    assert not any(map(ends_sentence, ("a", "a,", "a...", "a:", "")))
    assert remove_citations("a[12]b") == ("ab", 1)


def test_sentences_are_counted_in_what_is_left():
    found = judged("One two.\nA menu. Two of them\nThree four.", terminal_punctuation=True, min_sentences=3)
    assert found.reason == "fewer than 3 sentences"
    assert [change.what for change in found.changes] == ["lines without a sentence's end"]


def test_prose_passes_all_rules():
    writer = Writer(4)
    step = C4(C4Config(kind="c4"), seed=0)
    texts = ["\n".join(writer.lines()) for _ in range(20)]
    assert [outcome(step, text).text for text in texts] == texts
