from __future__ import annotations

import numpy as np

from llmstack.data.row_tables import EncodeReport, Rows
from llmstack.stages.language import TargetInputs


def rows():
    mask = np.zeros((3, 8), np.float32)
    mask[0, 2:5], mask[1, 1], mask[2, 4:6] = 1.0, 1.0, 2.0
    labels = np.arange(24, dtype=np.int32).reshape(3, 8)
    arrays = {name: np.ones((3, 8), np.int32) for name in ("tokens", "positions", "segments")}
    return Rows(arrays | {"labels": labels, "loss_mask": mask}, 24, EncodeReport(3, 3))


def test_trained_positions_become_targets_with_their_weights():
    table = rows()
    inputs = TargetInputs(table, batch_rows=2)
    got = inputs(table.take(np.array([0, 2])))
    assert list(got) == ["tokens", "positions", "segments", "targets", "labels", "mask"]
    # a batch has 16 positions, so no more targets than that
    assert inputs.num_targets == 16
    assert got["targets"][:5].tolist() == [2, 3, 4, 12, 13]
    assert got["labels"][:5].tolist() == [2, 3, 4, 20, 21]
    assert got["mask"].tolist() == [1, 1, 1, 2, 2] + [0] * 11


def test_the_number_of_targets_holds_the_fullest_rows_in_whole_tiles():
    mask = np.zeros((4, 100), np.float32)
    mask[0, :70], mask[1, :40], mask[2, :5] = 1, 1, 1
    table = Rows({"loss_mask": mask, "tokens": mask.astype(np.int32)}, 400, EncodeReport(4, 4))
    assert TargetInputs(table, batch_rows=2).num_targets == 128
    # more rows in a batch than there are: rows repeat over epochs
    assert TargetInputs(table, batch_rows=6).num_targets == 256
