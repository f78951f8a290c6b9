"""Preference learning does not depend on how a step is cut or how rows are padded."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tolerances import EQUIVALENCE_ATOL, LOGP_MATCH_ATOL
from tests.unit.stages.preference.tiny_preference import build

NONE = {"samples": {"prompts": 0, "max_new_tokens": 4, "temperature": 1.0}, "yardsticks": {}}
STEPS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("preference")


@pytest.mark.parametrize(("loss", "record"), [("sigmoid", "preference"), ("orpo", "preference"), ("kto", "labelled")])
def test_micro_batches_add_up_to_the_large_batch(folder, loss, record):
    large = build(folder, {"name": loss}, record=record, batch_rows=8, accumulate=1, **NONE)
    small = build(folder, {"name": loss}, record=record, batch_rows=2, accumulate=4, **NONE)
    for index in range(1, STEPS + 1):
        wanted, ours = large.step(index).metrics, small.step(index).metrics
        assert ours.keys() == wanted.keys()
        np.testing.assert_allclose(
            [ours[name] for name in wanted], list(wanted.values()), atol=LOGP_MATCH_ATOL, rtol=EQUIVALENCE_ATOL
        )
    if loss == "kto":
        assert wanted["train/baseline"] > 0  # the case is one in which it matters
    theirs, mine = large.state().params, small.state().params
    for name, array in theirs.items():
        np.testing.assert_allclose(mine[name], array, atol=LOGP_MATCH_ATOL, rtol=0)


@pytest.mark.parametrize(("loss", "record"), [("sigmoid", "preference"), ("kto", "preference")])
def test_rows_of_several_lengths_say_what_rows_of_one_length_say(folder, loss, record):
    one = build(folder, {"name": loss}, record=record, seq_len=48, **NONE)
    shorter = int(one.train_rows.row_tokens.min()) // len(one.train_rows.sides) + 2
    several = build(folder, {"name": loss}, record=record, seq_len=48, length_buckets=[shorter, 48], **NONE)
    assert set(several.train_rows.widths) == {shorter, 48}
    np.testing.assert_allclose(several.reference.logp, one.reference.logp, atol=LOGP_MATCH_ATOL, rtol=0)
    np.testing.assert_allclose(several.reference.mismatched, one.reference.mismatched, atol=LOGP_MATCH_ATOL, rtol=0)
    ours, wanted = several.evaluate(), one.evaluate()
    np.testing.assert_allclose(list(ours.values()), list(wanted.values()), atol=LOGP_MATCH_ATOL, rtol=0)
