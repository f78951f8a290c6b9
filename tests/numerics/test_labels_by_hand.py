"""Which position learns which token, written out; and how MindFormers' own packing differs from it."""

from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.documents import Documents, Encoded, Losses
from llmstack.data.records import Message, MessagesRecord, TextRecord
from llmstack.data.rows import chat_rows
from llmstack.integrations.mindformers.library import quietly
from tests.helpers.rows import chat, everything, text
from tests.unit.data.letters import letter_tokenizer

IGNORED = -100
"""What PyTorch and MindFormers write where nothing is learnt."""

CONVERSATIONS = {
    # the beginning, what the user says, what the assistant says up to the token that ends it
    "first": ([1], [11], [12, 13, 2]),
    "second": ([1], [21], [22, 2]),
}
RIGHT = [IGNORED, 12, 13, 2, IGNORED, IGNORED, 22, 2, IGNORED]
"""labels[t] = ids[t + 1] where the assistant says token t + 1, in the packed row 1 11 12 13 2 1 21 22 2."""


def labels_of(batch: dict[str, np.ndarray]) -> list[list[int]]:
    return np.where(batch["loss_mask"] == 1, batch["labels"], IGNORED).tolist()


def test_a_conversation_of_two_turns() -> None:
    turns = (Message("user", "a"), Message("assistant", "bc"), Message("user", "d"), Message("assistant", "e"))
    batch = everything(chat([MessagesRecord(turns)], letter_tokenizer(), 28, 0.0))
    # 1 opens a turn, 7 and 8 are the roles, 2 ends a turn, 4 is a line break, a = 10; 3 fills the row
    assert {name: array.tolist() for name, array in batch.items()} == {
        #             user a           assistant b  c            user d           assistant e         filling
        "tokens": [[1, 7, 10, 2, 4, 1, 8, 11, 12, 2, 4, 1, 7, 13, 2, 4, 1, 8, 14, 2, 4, 3, 3, 3, 3, 3, 3, 3]],
        # the role of the assistant learns its first word, its last word the end of the turn, and that end nothing; the
        # last token of all has no next one and holds itself
        "labels": [[7, 10, 2, 4, 1, 8, 11, 12, 2, 4, 1, 7, 13, 2, 4, 1, 8, 14, 2, 4, 4, 3, 3, 3, 3, 3, 3, 3]],
        "loss_mask": [[0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
        "positions": [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0, 0, 0, 0, 0, 0, 0]],
        "segments": [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]],
    }


def test_a_packed_pair_of_documents() -> None:
    batch = everything(text([TextRecord("abc"), TextRecord("de")], letter_tokenizer(), 9))
    # 0 ends a document and is learnt; nobody learns across the border: the 0 behind c has no label
    assert {name: array.tolist() for name, array in batch.items()} == {
        "tokens": [[10, 11, 12, 0, 13, 14, 0, 3, 3]],
        "labels": [[11, 12, 0, 0, 14, 0, 0, 3, 3]],
        "loss_mask": [[1, 1, 1, 0, 1, 1, 0, 0, 0]],
        "positions": [[0, 1, 2, 3, 0, 1, 2, 0, 0]],
        "segments": [[1, 1, 1, 1, 2, 2, 2, 0, 0]],
    }


def test_a_document_cut_into_two_rows_loses_no_label() -> None:
    batch = everything(text([TextRecord("abcde")], letter_tokenizer(), 4, packing="sequential"))
    assert batch["tokens"].tolist() == [[10, 11, 12, 13], [14, 0, 3, 3]]
    # d, at the end of the first row, learns e, which begins the second
    assert labels_of(batch) == [[11, 12, 13, 14], [0, IGNORED, IGNORED, IGNORED]]


def our_rows() -> dict[str, np.ndarray]:
    ids = [begin + asked + said for begin, asked, said in CONVERSATIONS.values()]
    masks = [[0] * len(begin + asked) + [1] * len(said) for begin, asked, said in CONVERSATIONS.values()]
    documents = Documents.of([Encoded.of(ids, masks, list(CONVERSATIONS), Losses(len(ids)))])
    return everything(chat_rows(documents, 9, 0, max_untrained_ratio=0.0))


def test_labels_are_shifted_once() -> None:
    batch = our_rows()
    assert batch["tokens"].tolist() == [[1, 11, 12, 13, 2, 1, 21, 22, 2]]
    assert labels_of(batch) == [RIGHT]


class Ids:
    """The tokenizer MindFormers' handler is given: ids of the conversations above for the texts it makes of them."""

    pad_token_id = 0

    def __call__(self, rendered: str) -> dict[str, list[int]]:
        name = next((name for name in CONVERSATIONS if name in rendered), "first")
        begin, asked, said = CONVERSATIONS[name]
        ids = asked if rendered.startswith("USER") else said if rendered.startswith("ASSISTANT") else begin
        return {"input_ids": list(ids)}


@pytest.fixture(scope="module")
def handled() -> tuple[list[dict[str, list[int]]], dict[str, list[int]]]:
    """What MindFormers makes of the conversations, one by one and packed into one row."""
    with quietly():
        from datasets import Dataset
        from mindformers.dataset.handler.alpaca_handler import AlpacaInstructDataHandler
        from mindformers.dataset.handler.packing_handler import PackingHandler
    one_by_one, packing = AlpacaInstructDataHandler(seq_length=9, padding=False), PackingHandler(seq_length=9)
    one_by_one.tokenizer = Ids()
    samples = [one_by_one.process({"instruction": name, "output": name}) for name in CONVERSATIONS]
    samples = [{key: array.tolist() for key, array in sample.items()} for sample in samples]
    # a third one, in a row of its own: they refuse data that fills less than a row
    packed = packing(Dataset.from_list([*samples, samples[0]]))[0]
    return samples, packed


def test_mindformers_shifts_labels_before_it_packs(handled) -> None:
    samples, packed = handled
    assert [token for sample in samples for token in sample["input_ids"]] == packed["input_ids"]
    assert packed["input_ids"] == our_rows()["tokens"][0].tolist()
    assert [label for sample in samples for label in sample["labels"]] == RIGHT


def test_mindformers_packing_shifts_them_again_and_ours_does_not(handled) -> None:
    _, packed = handled
    ids, theirs, (ours,) = packed["input_ids"], packed["labels"], labels_of(our_rows())
    ends = [4, 8]  # of the documents, where it puts the id that pads
    assert theirs == [12, 13, 2, IGNORED, 0, 22, 2, IGNORED, 0]
    assert all(theirs[t] == ids[t + 2] for t in range(9) if theirs[t] != IGNORED and t not in ends)
    assert [theirs[t] for t in ends] == [0, 0]
    assert ours == RIGHT != theirs
    assert all(ours[t] == ids[t + 1] for t in range(9) if ours[t] != IGNORED)
    assert [ours[t] for t in ends] == [IGNORED, IGNORED]
