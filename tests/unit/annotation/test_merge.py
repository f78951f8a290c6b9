from __future__ import annotations

from llmstack.annotation.items import Item
from llmstack.annotation.merge import merge, record_of
from llmstack.annotation.people import HumanLabel
from llmstack.annotation.votes import Decision

ITEM, OTHER = Item("p", where="f:1"), Item("q", where="f:2")
PAIR = Item("p", ("x", "y"), where="f:1")
SURE = Decision("good", 0.75, ("judge",), (), ({"label": "good", "share": 0.75, "annotators": ["judge"]},))
UNSURE = Decision("good", 0.5, ("judge",), (("tie", "as many"),), ({"label": "good", "share": 0.5},))


def said(label, item=ITEM):
    return {item.id: HumanLabel(item, label, "h:1")}


def put(items=(ITEM,), task="class", people=None, queued=None, decisions=None):
    return merge(items, task, people=people or {}, queued=queued or {}, decisions=decisions or {})


def test_what_is_certain_is_a_record():
    merged = put(decisions={ITEM.id: SURE})
    assert merged.records == [
        {"prompt": "p", "response": "good", "label_source": "automatic", "annotators": ["judge"], "agreement": 0.75,
         "id": ITEM.id, "where": "f:1"}]  # fmt: skip
    assert (merged.queue, merged.sources) == ([], {"automatic": 1})


def test_what_is_not_waits_for_people():
    merged = put([ITEM, OTHER], decisions={ITEM.id: UNSURE})
    assert merged.records == []
    assert merged.queue[0] == {
        "id": ITEM.id, "prompt": "p", "candidates": [{"label": "good", "share": 0.5}], "why": ["as many"],
        "label": "", "discard": False, "where": "f:1"}  # fmt: skip
    assert merged.queue[1]["why"] == ["no automatic annotator"]
    assert merged.why == {"tie": 1, "no_label": 1}


def test_people_come_before_annotators_and_the_queue_before_all():
    people = {"ann": said("bad")}
    assert put(people=people, decisions={ITEM.id: SURE}).records[0]["response"] == "bad"
    merged = put(people=people, queued=said("ugly"), decisions={ITEM.id: SURE})
    assert (merged.records[0]["response"], merged.records[0]["label_source"]) == ("ugly", "semi_automatic")
    assert merged.records[0]["annotators"] == ["queue"]
    assert "agreement" not in merged.records[0]


def test_people_of_one_mind_are_all_named():
    merged = put(people={"ann": said("bad"), "bob": said("bad")})
    assert (merged.records[0]["label_source"], merged.records[0]["annotators"]) == ("human", ["ann", "bob"])


def test_people_who_disagree_are_asked():
    merged = put(people={"ann": said("bad"), "bob": said(None)}, decisions={ITEM.id: SURE})
    assert merged.records == []
    assert merged.queue[0]["why"] == ["ann: bad; bob: (thrown out)"]
    assert [one["annotators"] for one in merged.queue[0]["candidates"]] == [["ann"], ["bob"]]


def test_of_several_responses_of_people_the_first_is_taken():
    merged = put(task="response", people={"ann": said(None), "bob": said("x"), "cy": said("y")})
    assert (merged.records[0]["response"], merged.records[0]["annotators"]) == ("x", ["bob"])


def test_what_people_throw_out_is_neither():
    merged = put(queued=said(None), decisions={ITEM.id: SURE})
    assert (merged.records, merged.queue, merged.discarded) == ([], [], 1)


def test_preferences_become_chosen_and_rejected():
    assert record_of(PAIR, "preference", "a") == {"prompt": "p", "chosen": "x", "rejected": "y"}
    swapped = Item("p", ("y", "x"))
    merged = put([PAIR], "preference", people={"ann": {PAIR.id: HumanLabel(swapped, "a", "h:1")}})
    assert (merged.records[0]["chosen"], merged.records[0]["rejected"]) == ("y", "x")
    waiting = put([PAIR], "preference").queue[0]
    assert (waiting["answer_a"], waiting["answer_b"]) == ("x", "y")
