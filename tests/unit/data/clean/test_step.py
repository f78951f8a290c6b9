from __future__ import annotations

import pickle

from llmstack.data.clean.step import Change, Document, Outcome, Step, drop, keep


def test_changes_that_did_not_happen_are_left_out():
    assert keep("text", Change("a", 0), Change("b", 2)).changes == (Change("b", 2),)
    assert drop("why", changes=[Change("a", 0), Change("b", 1)]) == Outcome(None, "why", "", (Change("b", 1),))


def test_documents_and_outcomes_travel_between_processes():
    for thing in (Document(3, "file:4", "text"), keep("text", Change("a", 1, "x")), drop("why", "here")):
        assert pickle.loads(pickle.dumps(thing)) == thing


def test_a_step_has_no_details_of_its_own():
    class Nothing(Step):
        def apply(self, document):
            return keep(document.text)

    assert Nothing().details() == {}
