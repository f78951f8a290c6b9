from __future__ import annotations

import numpy as np
import pytest

from llmstack.cli.row_text import Marker, printable, segment_text, token_table
from llmstack.data.bpe import train_bpe
from llmstack.data.chat import CHATML
from llmstack.data.records import PreferenceRecord, PromptRecord, ResponseRecord, TextRecord
from llmstack.data.row_view import segments_of
from llmstack.data.rows import prompt_rows
from llmstack.data.tokenizer import Tokenizer
from tests.helpers import rows as make

MARKS, COLOURS = Marker(colours=False), Marker(colours=True)


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return Tokenizer(*train_bpe(["user assistant system\n yes no red green"] * 20, 300), CHATML)


def test_what_is_trained_stands_in_brackets(bpe):
    rows = make.chat([ResponseRecord(prompt="is it?", response="yes\nor no")], bpe, 64, 0.0)
    (segment,) = segments_of(rows, 0)
    assert segment_text(segment, bpe, MARKS) == (
        "<|im_start|>user\nis it?<|im_end|>\n<|im_start|>assistant\n[[yes\nor no<|im_end|>]]\n"
    )
    green, plain = "\x1b[1;32m", "\x1b[0m"
    assert f"{green}yes{plain}\n{green}or no<|im_end|>{plain}\n" in segment_text(segment, bpe, COLOURS)


def test_a_label_in_another_row_stands_behind_an_ellipsis(bpe):
    rows = make.text([TextRecord("abcdefgh")], bpe, 4)
    texts = {segment_text(segments_of(rows, row)[0], bpe, MARKS) for row in range(3)}
    assert texts == {"a[[bcd]] … [[e]]", "e[[fgh]] … [[<|endoftext|>]]", "<|endoftext|>"}


def test_a_bound_inside_a_character_loses_no_token(bpe):
    rows = make.text([TextRecord("é")], bpe, 8)
    (segment,) = segments_of(rows, 0)
    assert len(segment.tokens) == 3, "two bytes and the end"
    assert segment_text(segment, bpe, MARKS) == "\ufffd[[\ufffd<|endoftext|>]]"


def test_data_cannot_steer_the_terminal():
    assert printable("a\x1b[2Jb\r\n\tc\x9b\u202e") == "a\\x1b[2Jb\\x0d\n\tc\\x9b\\u202e"


def test_the_table_of_a_packed_row(bpe):
    rows = make.chat([ResponseRecord(prompt="a", response="b")], bpe, 64, 0.0)
    segments = segments_of(rows, 0)
    names, *lines = token_table(segments, bpe)
    assert names.split() == ["place", "segment", "position", "id", "token", "label", "label", "token", "trained"]
    assert len(lines) == rows.num_tokens
    trained = [line.split() for line in lines if line.endswith("yes")]
    ids = [bpe.encode("b")[0], bpe.control_tokens["<|im_end|>"]]
    assert [(words[-3], words[-2]) for words in trained] == [(str(ids[0]), '"b"'), (str(ids[1]), '"<|im_end|>"')]
    # the place before a trained token trains it
    place = int(trained[0][0])
    assert segments[0].tokens[place + 1] == ids[0]
    assert lines[place + 1].split()[3:5] == [str(ids[0]), '"b"']


def test_the_tables_of_pairs_and_prompts(bpe):
    rows = make.pairs([PreferenceRecord("a", "yes", "no")], bpe, 64)
    names, *lines = token_table(segments_of(rows, 0), bpe)
    assert names.split() == ["place", "segment", "position", "id", "token", "answer", "score"]
    read = [line.split() for line in lines if line.endswith("read here")]
    assert [(words[1], words[4]) for words in read] == [("chosen", '"<|im_end|>"'), ("rejected", '"<|im_end|>"')]
    names, *lines = token_table(segments_of(prompt_rows([PromptRecord("a")], bpe, [32]), 0), bpe)
    assert names.split() == ["place", "segment", "position", "id", "token"]
    assert [int(line.split()[0]) for line in lines] == list(range(32 - len(lines), 32))
    assert np.array_equal([int(line.split()[2]) for line in lines], np.arange(len(lines)))
