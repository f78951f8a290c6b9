from __future__ import annotations

import numpy as np
import pytest
from mindspore import nn

from llmstack.generation.composed import ComposedSampler
from llmstack.generation.decoder import CachedDecoder
from llmstack.generation.loop import Continuation, DecodingLoop, Opening
from tests.helpers.cells import run
from tests.helpers.generation_checks import left_padded
from tests.tolerances import EXACT

EOS, OTHER_EOS, NEW_TOKENS = 30, 31, 4


class _Script(nn.Cell):
    """Draws ``30 + floor(uniform)``: the noise says what is drawn."""

    def __init__(self):
        super().__init__()
        self.real = ComposedSampler(None)

    def construct(self, logits_BV, temperature, uniform_B):
        _, logp_B = self.real(logits_BV, temperature, uniform_B * 0.0 + 0.5)
        return (uniform_B + 30.0).astype("int32"), logp_B


@pytest.fixture(scope="module")
def draw(model, prompts):
    """Runs the loop on a script, one row of offsets to 30 for each token."""
    decoder = CachedDecoder(model, batch_rows=3, prompt_len=5, context_len=9)
    loop = DecodingLoop(decoder, _Script(), room=NEW_TOKENS, eos_ids=(EOS, OTHER_EOS))
    tokens, lengths = left_padded(prompts, 5)

    def run_script(offsets_BR):
        return run(loop, tokens, lengths, np.ones(1, np.float32), np.array(offsets_BR, np.float32).T)

    return run_script


def test_it_goes_on_to_the_end_while_a_row_has_not_ended(draw):
    script = np.array([[2, 0, 5, 5], [1, 2, 2, 2], [3, 4, 2, 3]])
    tokens_RB, _, steps = draw(script)
    assert steps == NEW_TOKENS
    np.testing.assert_array_equal(tokens_RB, 30 + script.T)


@pytest.mark.parametrize("last_end", [0, 1, 2])
def test_it_stops_when_every_row_has_ended(draw, last_end):
    before, _, _ = draw(np.full((3, NEW_TOKENS), 6))
    script = np.full((3, NEW_TOKENS), 3)
    script[0, 0] = script[2, 0] = 1
    script[1, last_end] = 0
    tokens_RB, _, steps = draw(script)
    assert steps == last_end + 1
    np.testing.assert_array_equal(tokens_RB[:steps], 30 + script.T[:steps])
    np.testing.assert_allclose(tokens_RB[steps:], before[steps:], rtol=0, atol=EXACT)  # not touched


@pytest.fixture(scope="module")
def go_on(model, prompts):
    """An opening and up to 3 tokens more, on a script."""
    decoder = CachedDecoder(model, batch_rows=3, prompt_len=5, context_len=9)
    opening = Opening(decoder, _Script(), room=1, eos_ids=(EOS, OTHER_EOS))
    continuation = Continuation(decoder, _Script(), room=3, eos_ids=(EOS, OTHER_EOS))
    tokens, lengths = left_padded(prompts, 5)

    def run_script(offsets_BR, *, ended=(False, False, False), limit=3):
        noise = np.array(offsets_BR, np.float32).T
        one = np.ones(1, np.float32)
        first, _ = run(opening, tokens, lengths, one, noise[:1])
        drawn, _, steps = run(
            continuation, first[0], np.array(ended), 5 - lengths, np.array([5], np.int32), one, noise[1:],
            np.array(limit, np.int32),
        )  # fmt: skip
        return first, drawn, int(steps)

    return run_script


def test_the_first_token_and_up_to_the_limit_more(go_on):
    script = np.array([[2, 4, 5, 5], [3, 2, 2, 6], [3, 4, 2, 3]])
    first, drawn, steps = go_on(script)
    assert steps == 3
    np.testing.assert_array_equal(np.concatenate([first, drawn]), 30 + script.T)
    _, drawn, steps = go_on(script[:, ::-1].copy(), limit=2)
    assert steps == 2
    np.testing.assert_array_equal(drawn[:2], 30 + script.T[::-1][1:3])


def test_it_stops_when_every_row_has_ended_or_was_ended_by_the_caller(go_on):
    script = np.array([[2, 4, 5, 5], [3, 1, 2, 6], [3, 4, 0, 3]])
    assert go_on(script)[2] == 3
    assert go_on(script, ended=(True, False, False))[2] == 2
    assert go_on(script, ended=(True, False, True))[2] == 1
    assert go_on(script, ended=(True, True, True))[2] == 0
