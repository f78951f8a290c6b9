from __future__ import annotations

import pytest

from llmstack.data.bpe import train_bpe
from llmstack.data.chat import CHATML
from llmstack.data.same_tokens import require_same_tokens
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from tests.helpers.stages import tokenizer


def test_the_same_tokens_under_another_template_pass():
    other = Tokenizer(*train_bpe(["red green blue black white"] * 4, 278), CHATML + "\n")
    require_same_tokens(tokenizer(), other, where="stages.p.reward.from", whose="the reward model rm")


def test_other_tokens_are_told():
    other = Tokenizer(*train_bpe(["one two three four five"] * 4, 278), CHATML)
    message = (
        r"stages\.p\.reward\.from: expected the reward model rm to have the recipe's tokenizer, got another: \d+ ids"
    )
    with pytest.raises(UserError, match=message):
        require_same_tokens(tokenizer(), other, where="stages.p.reward.from", whose="the reward model rm")
