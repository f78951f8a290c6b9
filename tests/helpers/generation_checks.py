"""What every implementation of a decoding kernel must satisfy: the oracles' values."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from llmstack.generation.composed import CacheSizes
from llmstack.nn.rotary import RotaryEmbedding
from tests.helpers.cells import run, tensors
from tests.helpers.kernel_checks import THETA, attention_oracle_of
from tests.reference.logprob import log_softmax
from tests.reference.sampling import inverse_cdf
from tests.tolerances import EXACT, F32_ATOL, F32_RTOL, STANDARD_ERRORS

# (slot of each row's first real token, prompt slots P, tokens in all, H, K, E)
CACHE_CASES = {
    "grouped_left_padded": ((0, 2, 3), 4, 7, 4, 2, 6),
    "one_prompt_token": ((0,), 1, 3, 3, 3, 2),
}
# sizes on both sides of the lanes that the compiled kernel works in
LONG_CACHE_CASES = {
    "longer_than_vectors": ((0, 30), 33, 35, 2, 1, 18),
    "whole_vectors": ((0, 14), 15, 17, 2, 2, 32),
}


class _Replay(nn.Cell):
    """Fills a cache with the first tokens and feeds it the others one at a time."""

    def __init__(self, cache, view, prompt_len, num_tokens):
        super().__init__()
        self.cache, self.view = cache, view
        self.prompt_len, self.num_tokens = prompt_len, num_tokens

    def construct(self, qkv_BTW, cos_BTE, sin_BTE, first_B):
        prompt = self.prompt_len

        self.cache.fill(
            ops.reshape(qkv_BTW[:, :prompt], (-1, qkv_BTW.shape[2])),
            ops.reshape(cos_BTE[:, :prompt], (-1, cos_BTE.shape[2])),
            ops.reshape(sin_BTE[:, :prompt], (-1, sin_BTE.shape[2])),
        )
        merged = ()
        for slot in range(self.prompt_len, self.num_tokens):
            at = Tensor([slot], ms.int32)
            view = self.view(first_B, at)
            merged = merged + (self.cache(qkv_BTW[:, slot], cos_BTE[:, slot], sin_BTE[:, slot], at, view),)
        return ops.stack(merged, 1)


def cache_sizes(case):
    """The cache of one of the cases, with a slot more than it needs."""
    first, _, num_tokens, num_heads, num_kv_heads, head_dim = case
    return CacheSizes(
        batch_rows=len(first),
        context_len=num_tokens + 1,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
    )


def check_cache(cache, view, case, *, window=None):
    """Each token after the prompt attends as it does in the oracle without a cache; a second prompt starts afresh."""
    first, prompt_len, num_tokens, num_heads, num_kv_heads, head_dim = case
    replay = _Replay(cache, view, prompt_len, num_tokens)
    slots, first_B1 = np.arange(num_tokens), np.array(first)[:, None]
    positions = np.maximum(slots - first_B1, 0).astype(np.int32)
    segments = (slots >= first_B1).astype(np.int32)
    angles = run(RotaryEmbedding(head_dim, num_tokens, THETA), positions)
    cos, sin = (table.reshape(*positions.shape, -1) for table in angles)
    for seed in (0, 1):
        width = (num_heads + 2 * num_kv_heads) * head_dim
        qkv = np.random.default_rng(seed).normal(size=(*positions.shape, width)).astype(np.float32)
        oracle_case = (None, num_tokens, None, num_heads, num_kv_heads, head_dim)
        expected = attention_oracle_of(oracle_case, qkv.reshape(-1, width), positions, segments, window=window)
        expected = expected.reshape(*positions.shape, -1)[:, prompt_len:]
        actual = run(replay, qkv, cos, sin, np.array(first, np.int32))
        np.testing.assert_allclose(actual, expected, rtol=0, atol=F32_ATOL)


def check_cache_by_hand(cache, view):
    """One head of width 2 at position 0 throughout; the scores of the new token are (0, ln 3)."""
    row = np.array([[[0, 0, 1, 0, 4, 0], [0, np.sqrt(2) * np.log(3), 0, 1, 0, 8]]], np.float32)
    cos, sin = np.ones((1, 2, 1), np.float32), np.zeros((1, 2, 1), np.float32)
    merged = run(_Replay(cache, view, 1, 2), row, cos, sin, np.zeros(1, np.int32))
    # it weighs the values (4, 0) and (0, 8) by 1/4 and 3/4
    np.testing.assert_allclose(merged, [[[1, 6]]], rtol=0, atol=F32_ATOL)


BY_HAND_CACHE = CacheSizes(batch_rows=1, context_len=2, num_heads=1, num_kv_heads=1, head_dim=2)
SAMPLER_CASES = ((1, 2, 1.0), (40, 37, 0.7), (9, 1000, 2.5))


def check_sampler(sampler, case):
    """Tokens and log-probabilities of the oracle, over both halves of (0, 1) and close to its ends."""
    num_rows, vocab_size, temperature = case
    rng = np.random.default_rng(vocab_size)
    logits = (3.0 * rng.normal(size=(num_rows, vocab_size))).astype(np.float32)
    for uniforms in (rng.random(num_rows), np.full(num_rows, 2.0**-24), np.full(num_rows, 1 - 2.0**-24)):
        uniforms = uniforms.astype(np.float32)
        token, logp = run(sampler, logits, np.array([temperature], np.float32), uniforms)
        expected = np.stack([log_softmax(row, temperature) for row in logits])
        wanted = [inverse_cdf(np.exp(row), u) for row, u in zip(expected, uniforms, strict=True)]
        assert token.dtype == np.int32
        if uniforms[0] < 1 - 2.0**-23:  # so close to 1 the last bits of the sums decide
            np.testing.assert_array_equal(token, wanted)
        np.testing.assert_allclose(logp, expected[np.arange(num_rows), token], rtol=F32_RTOL, atol=F32_ATOL)


def check_sampler_by_hand(sampler):
    """Probabilities 1/2, 1/4, 1/4 end at 0.5, 0.75 and 1."""
    logits = np.log(np.array([[0.5, 0.25, 0.25]] * 4, np.float32))
    uniforms = np.array([0.4, 0.6, 0.7, 0.8], np.float32)
    token, logp = run(sampler, logits, np.ones(1, np.float32), uniforms)
    assert token.tolist() == [0, 1, 1, 2]
    np.testing.assert_allclose(logp, np.log([0.5, 0.25, 0.25, 0.25]), rtol=0, atol=F32_ATOL)


def check_impossible_tokens_are_never_drawn(sampler):
    """Only tokens 2 and 5 of 7 have any probability; the noise goes to both ends of (0, 1)."""
    logits = np.full((64, 7), -1e4, np.float32)
    logits[:, [2, 5]] = 0.0
    uniforms = np.concatenate([np.geomspace(2.0**-24, 0.49, 32), 1 - np.geomspace(2.0**-24, 0.49, 32)])
    token, _ = run(sampler, logits, np.ones(1, np.float32), uniforms.astype(np.float32))
    assert token.tolist() == [2] * 32 + [5] * 32


def check_distribution(sampler, num_rows=20000):
    """Pearson's statistic of the counts against softmax(z / T): mean k - 1, variance 2 (k - 1) for k tokens."""
    logits = np.array([0.3, -1.0, 2.0, 0.0, 1.1, -0.4, 0.9, -2.0], np.float32)
    rng, temperature = np.random.default_rng(5), 0.7
    inputs = (np.tile(logits, (num_rows, 1)), np.array([temperature], np.float32), rng.random(num_rows))
    token, _ = run(sampler, *inputs)
    expected = num_rows * np.exp(log_softmax(logits, temperature))
    statistic = ((np.bincount(token, minlength=logits.size) - expected) ** 2 / expected).sum()
    freedom = logits.size - 1
    assert statistic < freedom + STANDARD_ERRORS * np.sqrt(2 * freedom)


def same_answers(a, b):
    """Two :class:`~llmstack.generation.generator.Generated` are bitwise the same."""
    for name in ("tokens", "lengths", "logp", "finished"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=EXACT)


def left_padded(prompts, prompt_len, *, pad=0):
    """``(tokens_BP, lengths_B)`` of lists of ids."""
    tokens = np.full((len(prompts), prompt_len), pad, np.int32)
    for row, ids in enumerate(prompts):
        tokens[row, prompt_len - len(ids) :] = ids
    return tokens, np.array([len(ids) for ids in prompts], np.int32)


def train_graph_logp(model, prompts, answers, temperature):
    """Log-probabilities of answers from the model's training graph, right-padded: (B, R) float64."""
    response_len = answers.shape[1]
    longest = max(map(len, prompts)) + response_len
    tokens, segments = np.zeros((2, len(prompts), longest), np.int32)
    for row, ids in enumerate(prompts):
        real = len(ids) + response_len
        tokens[row, :real] = [*ids, *answers[row]]
        segments[row, :real] = 1
    positions = np.tile(np.arange(longest, dtype=np.int32), (len(prompts), 1)) * segments
    logits = model(*tensors((tokens, positions, segments))).asnumpy()
    rows = []
    for row, ids in enumerate(prompts):
        states = logits[row, len(ids) - 1 : len(ids) - 1 + response_len]
        rows.append([log_softmax(state, temperature)[t] for state, t in zip(states, answers[row], strict=True)])
    return np.array(rows)
