from __future__ import annotations

import numpy as np
import pytest
from mindspore import nn

from llmstack.generation.decoder import CachedDecoder
from tests.helpers.cells import run
from tests.helpers.generation_checks import left_padded
from tests.helpers.models import oracle_shape, oracle_weights
from tests.reference.decoder import logits
from tests.tolerances import F32_ATOL, F32_RTOL

PROMPT_LEN, SLOTS = 5, 7


class _TwoTokens(nn.Cell):
    """Prefill and one step."""

    def __init__(self, decoder):
        super().__init__(auto_prefix=False)
        self.decoder = decoder

    def construct(self, tokens_BP, next_B, first_B, slot):
        return self.decoder.prefill(tokens_BP, first_B), self.decoder(next_B, first_B, slot)


@pytest.fixture(scope="module")
def names(model):
    return [parameter.name for parameter in model.get_parameters()]


@pytest.fixture(scope="module")
def decoder(model, names):
    return CachedDecoder(model, batch_rows=3, prompt_len=PROMPT_LEN, context_len=SLOTS)


def test_logits_after_the_prompt_and_after_one_more_token(model, decoder, prompts):
    tokens, lengths = left_padded(prompts, PROMPT_LEN, pad=3)
    following = np.array([4, 5, 6], np.int32)
    slot = np.array([PROMPT_LEN], np.int32)
    after_prompt, after_next = run(_TwoTokens(decoder), tokens, following, PROMPT_LEN - lengths, slot)
    for row, ids in enumerate(prompts):
        whole = np.array([[*ids, following[row]]])
        positions, segments = np.arange(whole.size)[None], np.ones(whole.shape, int)
        expected = logits(oracle_weights(model), oracle_shape(model.config), whole, positions, segments)[0]
        np.testing.assert_allclose(after_prompt[row], expected[-2], rtol=F32_RTOL, atol=F32_ATOL)
        np.testing.assert_allclose(after_next[row], expected[-1], rtol=F32_RTOL, atol=F32_ATOL)


def test_the_weights_are_the_models_own_and_keep_their_names(model, decoder, names):
    own = {id(parameter) for parameter in model.get_parameters()}
    others = [parameter for parameter in decoder.get_parameters() if id(parameter) not in own]
    assert [parameter.name for parameter in model.get_parameters()] == names
    assert len(others) == 2 and not any(parameter.requires_grad for parameter in others)
    assert len({parameter.name for parameter in decoder.get_parameters()}) == len(names) + 2
