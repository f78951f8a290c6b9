from __future__ import annotations

import numpy as np

from llmstack.stages.preference.inputs import AnswerInputs
from tests.unit.data.test_answer_rows import answers, pairs


def test_each_answer_token_is_predicted_from_the_position_before_it():
    rows = answers([([1, 2], [3, 4]), ([5], [6])], (6,))
    inputs = AnswerInputs(rows, batch_rows=2)(rows.take(np.array([0, 1])))
    real = inputs["rows"] < 2
    assert inputs["targets"][real].tolist() == [1, 2, 6]
    assert inputs["labels"][real].tolist() == [3, 4, 6]
    assert inputs["rows"][real].tolist() == [0, 0, 1]
    assert len(real) == 12  # never more than there are places
    assert list(inputs) == ["tokens", "positions", "segments", "targets", "labels", "rows"]


def test_emptied_samples_have_no_targets():
    rows = pairs([(2, 3), (3, 2)], (3,))
    batch = rows.take(np.array([0, 1]))
    rows.blank(batch, np.array([False, True]))
    inputs = AnswerInputs(rows, batch_rows=2)(batch)
    assert sorted(inputs["rows"][inputs["rows"] < 4].tolist()) == [0, 2]


def test_the_number_of_targets_depends_on_the_row_length_alone():
    long = ([1], list(range(2, 100)))
    rows = answers([([1], [2, 3]), ([1], [4])] * 8 + [long] * 2, (40, 128))
    inputs = AnswerInputs(rows, batch_rows=4)
    short = {len(inputs(rows.take(np.array(pick)))["targets"]) for pick in ([0, 1, 2, 3], [4, 5, 6, 8])}
    assert short == {64}
    assert len(inputs(rows.take(np.array([16, 0, 1, 2])))["targets"]) == 256
    anywhere = AnswerInputs(rows, batch_rows=4, any_width=True)
    assert len(anywhere(rows.take(np.array([0, 1, 2, 3])))["targets"]) == 160
