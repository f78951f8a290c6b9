from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.data.text_stream import TextStream


def decode(ids):
    return bytes(ids).decode("utf-8", "replace")


def test_a_character_of_several_tokens_comes_whole():
    stream = TextStream(decode)
    first, *rest = "\u00e9".encode()
    assert [stream.add([ord("a"), first]), stream.add(rest), stream.end()] == ["a", "\u00e9", ""]
    assert stream.text == "a\u00e9"


def test_a_character_that_is_never_completed_shows_at_the_end():
    stream = TextStream(decode)
    assert [stream.add([ord("a"), 0xF0, 0x9F]), stream.end()] == ["a", "\ufffd"]


@given(st.text(max_size=30), st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_pieces_of_any_size_make_up_the_text(text, sizes):
    ids, stream, pieces = list(text.encode()), TextStream(decode), []
    while ids:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(stream.add(ids[:size]))
        ids = ids[size:]
        # what was handed out is never taken back
        assert text.startswith("".join(pieces))
    assert "".join([*pieces, stream.end()]) == text == stream.text


@pytest.mark.parametrize("ids", [[0xFF], [0xE2, 0x82, ord("x")]])
def test_bytes_that_are_no_text_are_replaced(ids):
    stream = TextStream(decode)
    assert stream.add(ids) + stream.end() == decode(ids)
