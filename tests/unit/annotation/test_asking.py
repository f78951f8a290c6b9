from __future__ import annotations

import pytest

from llmstack.annotation.asking import ask_about
from llmstack.annotation.items import Item
from llmstack.annotation.requests import Phrasing, Reply
from llmstack.annotation.votes import Vote
from llmstack.config.annotation import PromptConfig
from tests.helpers.annotation import Scripted

ITEMS = [Item("one"), Item("two")]
PAIRS = [Item("one", ("x", "y")), Item("two", ("x", "z"))]
CLASS = Phrasing("class", PromptConfig(template="{prompt}"), ("good", "bad"))
PREFERENCE = Phrasing("preference", PromptConfig(template="{prompt} {answer_a} {answer_b}"))


def test_each_sample_is_a_vote(tmp_path):
    judge = Scripted(tmp_path, lambda request: ["good", "bad", "good"][request.sample], samples=3)
    votes, tally = ask_about(judge, ITEMS, CLASS)
    assert votes == {item.id: [Vote("good"), Vote("bad"), Vote("good")] for item in ITEMS}
    assert (len(judge.asked), tally.again, tally.unreadable) == (6, 0, 0)


def test_an_answer_that_cannot_be_read_is_asked_for_once_more(tmp_path):
    def answer(request):
        if request.messages[0].content == "one":
            return "Label: good"
        return "bad" if len(request.messages) == 3 else "hm"

    judge = Scripted(tmp_path, answer)
    votes, tally = ask_about(judge, ITEMS, CLASS)
    assert [votes[item.id] for item in ITEMS] == [[Vote("good")], [Vote("bad")]]
    assert (tally.again, tally.unreadable, len(judge.asked)) == (1, 0, 3)


def test_and_never_a_third_time(tmp_path):
    judge = Scripted(tmp_path, lambda request: f"hm {len(request.messages)}")
    votes, tally = ask_about(judge, ITEMS[:1], CLASS)
    assert votes[ITEMS[0].id] == [Vote(None, "expected one of good, bad on the last line, got 'hm 3'")]
    assert (tally.again, tally.unreadable, len(judge.asked)) == (1, 1, 2)


def test_a_response_is_asked_for_once(tmp_path):
    judge = Scripted(tmp_path, lambda request: Reply("half a", "cut off"))
    votes, tally = ask_about(judge, ITEMS[:1], Phrasing("response", PromptConfig()))
    assert votes[ITEMS[0].id] == [Vote(None, "cut off")]
    assert (tally.again, len(judge.asked)) == (0, 1)


@pytest.mark.parametrize(
    ("answer", "vote", "first_place"),
    [
        (lambda text: "A" if text.endswith("x y") else "B", Vote("a"), 1),
        (lambda text: "B" if text.endswith("x y") else "A", Vote("b"), 1),
        (lambda text: "A", Vote(None, "the answer shown first", flipped=True), 2),
        (lambda text: "B", Vote(None, "the answer shown second", flipped=True), 0),
    ],
)
def test_a_pair_is_asked_about_in_both_orders(tmp_path, answer, vote, first_place):
    judge = Scripted(tmp_path, lambda request: answer(request.messages[0].content))
    votes, tally = ask_about(judge, PAIRS[:1], PREFERENCE)
    assert votes[PAIRS[0].id] == [vote]
    assert [request.messages[0].content for request in judge.asked] == ["one x y", "one y x"]
    assert (tally.pairs, tally.flips, tally.first_place) == (1, int(vote.flipped), first_place)


def test_half_a_pair_is_no_vote(tmp_path):
    judge = Scripted(tmp_path, lambda request: "A" if request.messages[0].content.endswith("x y") else "hm")
    votes, tally = ask_about(judge, PAIRS[:1], PREFERENCE)
    assert votes[PAIRS[0].id][0].label is None and "got 'hm'" in votes[PAIRS[0].id][0].problem
    assert (tally.pairs, tally.flips, tally.unreadable) == (0, 0, 1)


def test_some_items_are_not_asked_about_but_answers_from_before_count(tmp_path):
    judge = Scripted(tmp_path, lambda request: "good")
    ask_about(judge, ITEMS[:1], CLASS)
    votes, _ = ask_about(judge, ITEMS, CLASS, kept_only={item.id for item in ITEMS})
    assert votes == {ITEMS[0].id: [Vote("good")]}
    assert len(judge.asked) == 1
