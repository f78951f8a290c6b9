from __future__ import annotations

import numpy as np

from llmstack.data.rows import chat_rows
from llmstack.stages.language import TargetInputs
from tests.helpers.rows import documents_of


def rows():
    """Three rows of 8 whose trained positions are 2..4, 1 and 4..5."""
    mask = [0] * 24
    for place in (3, 4, 5, 8 + 2, 16 + 5, 16 + 6):  # trained tokens: the labels of the positions before them
        mask[place] = 1
    return chat_rows(documents_of([8, 8, 8], mask=mask), 8, 0, max_untrained_ratio=0.0)


def test_trained_positions_become_targets_with_their_weights():
    table = rows()
    inputs = TargetInputs(table, batch_rows=2)
    batch = table.take(np.array([0, 2]))
    batch["loss_mask"][1] *= 2.0
    got = inputs(batch)
    assert list(got) == ["tokens", "positions", "segments", "targets", "labels", "mask"]
    # a batch has 16 positions, so no more targets than that
    assert inputs.num_targets == 16
    assert got["targets"][:5].tolist() == [2, 3, 4, 12, 13]
    assert got["labels"][:5].tolist() == [103, 104, 105, 305, 306]
    assert got["mask"].tolist() == [1, 1, 1, 2, 2] + [0] * 11


def test_the_number_of_targets_holds_the_fullest_rows_in_whole_tiles():
    mask = np.zeros((4, 100), np.uint8)
    mask[0, 1:71], mask[1, 1:41], mask[2, 1:6] = 1, 1, 1
    table = chat_rows(documents_of([100] * 4, mask=mask.reshape(-1)), 100, 0, max_untrained_ratio=0.5)
    assert TargetInputs(table, batch_rows=2).num_targets == 128
    # more rows in a batch than there are: rows repeat over epochs
    assert TargetInputs(table, batch_rows=6).num_targets == 256
