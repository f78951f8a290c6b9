"""The distribution a token is drawn from is transformers', with the same options in the same order."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import nn

from llmstack.generation.penalty import SeenTokens
from llmstack.generation.rules import SamplingRules
from llmstack.generation.support import support
from tests.helpers.cells import run
from tests.tolerances import F32_ATOL

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

VOCAB, TEMPERATURE = 40, 0.8


class _Weights(nn.Cell):
    """Probabilities up to a factor, with zeros on what may not be drawn."""

    def __init__(self, rules):
        super().__init__()
        self.seen = SeenTokens(rules.repetition_penalty, batch_rows=3, vocab_size=VOCAB)
        self.keep = support(rules) or nn.Identity()
        self.softmax = nn.Softmax(-1)

    def construct(self, tokens_BP, real_BP, logits_BV):
        self.seen.start(tokens_BP, real_BP)
        return self.keep(self.softmax(self.seen(logits_BV) / TEMPERATURE))


def theirs(options, tokens, logits):
    steps = [transformers.TemperatureLogitsWarper(TEMPERATURE)]
    if "repetition_penalty" in options:
        steps.insert(0, transformers.RepetitionPenaltyLogitsProcessor(options["repetition_penalty"]))
    if "top_k" in options:
        steps.append(transformers.TopKLogitsWarper(options["top_k"]))
    if "top_p" in options:
        steps.append(transformers.TopPLogitsWarper(options["top_p"]))
    if "min_p" in options:
        steps.append(transformers.MinPLogitsWarper(options["min_p"]))
    scores = torch.tensor(logits)
    for step in steps:
        scores = step(torch.tensor(tokens, dtype=torch.long), scores)
    return torch.softmax(scores, -1).numpy()


@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1.4},
        {"repetition_penalty": 0.7, "top_k": 6},
        {"top_p": 0.6},
        {"min_p": 0.2},
        {"repetition_penalty": 1.2, "top_k": 20, "top_p": 0.9, "min_p": 0.05},
    ],
    ids=str,
)
def test_the_distribution(options):
    rng = np.random.default_rng(4)
    tokens = rng.integers(0, VOCAB, (3, 7)).astype(np.int32)
    logits = (2.5 * rng.normal(size=(3, VOCAB))).astype(np.float32)
    weights = run(_Weights(SamplingRules(**options)), tokens, np.ones((3, 7), np.float32), logits)
    ours = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ours, theirs(options, tokens, logits), rtol=0, atol=F32_ATOL)
