"""The oracles themselves: hand-worked values, and analytic gradients against central differences."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.reference import (
    adamw,
    attention,
    blend,
    cross_entropy,
    decoder,
    distill,
    gae,
    kappa,
    logprob,
    mlp,
    norm,
    pairwise,
    pass_at_k,
    planning,
    ppo,
    preference,
    rope,
    sampling,
    schedules,
)
from tests.reference.differences import numerical_gradient
from tests.tolerances import F64_ATOL, FINITE_DIFFERENCE_ATOL, LIMIT_RTOL

CLIPS = [{"clip_low": 0.2, "clip_high": 0.3}, {"clip_low": 0.1, "clip_high": 0.1, "dual_clip": 1.5}]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def close(actual, expected, atol=F64_ATOL):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def test_rms_norm_by_hand():
    # mean square of (3, 4) is 12.5
    close(norm.rms_norm([3.0, 4.0], [1.0, 2.0], 0.0), [3 / math.sqrt(12.5), 8 / math.sqrt(12.5)])


def test_rope_quarter_turn_by_hand():
    # E = 2 has one pair with frequency 1: position pi/2 takes (1, 0) to (0, 1)
    close(rope.rotate(np.array([[[[1.0, 0.0]]]]), np.array([[math.pi / 2]]), 10000.0), [[[[0.0, 1.0]]]])


def test_rope_scores_depend_on_distance_only(rng):
    q, k = rng.normal(size=(2, 1, 1, 1, 8))
    scores = [
        float((rope.rotate(q, np.array([[m]]), 100.0) * rope.rotate(k, np.array([[n]]), 100.0)).sum())
        for m, n in [(3, 1), (12, 10)]
    ]
    close(scores[0], scores[1])


def test_llama3_frequencies_by_hand():
    # E = 6, theta = 1000: frequencies 1, 1/10, 1/100, which turn 30, 3 and 0.3 times in the old context
    found = rope.llama3_frequencies(6, 1000.0, factor=4.0, low=1.0, high=5.0, context=60 * math.pi)
    close(found, [1.0, 0.1 / 1.6, 0.01 / 4])


def test_yarn_frequencies_by_hand():
    # the ramp goes from channel 0, which turns 1000 times, to channel 3, which turns once: shares 0, 1/3, 2/3
    found = rope.yarn_frequencies(6, 1000.0, factor=4.0, context=2000 * math.pi, fast=1000.0, slow=1.0, truncate=False)
    close(found, [1.0, 0.1 * 0.75, 0.01 * 0.5])


def test_a_window_of_two_by_hand():
    assert attention.allowed([[1, 1, 1]], 2)[0].tolist() == [
        [True, False, False],
        [True, True, False],
        [False, True, True],
    ]


def test_attention_by_hand():
    # two tokens, equal keys: the second token averages both values; the first sees itself alone
    q = np.ones((1, 2, 1, 2))
    v = np.array([[[[1.0, 0.0]], [[3.0, 4.0]]]])
    close(attention.attention(q, np.zeros((1, 2, 1, 2)), v, [[1, 1]]), [[[[1.0, 0.0]], [[2.0, 2.0]]]])


def test_attention_gradient_matches_differences(rng):
    segments = np.array([[0, 1, 1, 2]])
    q, upstream = rng.normal(size=(2, 1, 4, 4, 2))
    k, v = rng.normal(size=(2, 1, 4, 2, 2))

    def objective(q_value, k_value, v_value):
        return float((attention.attention(q_value, k_value, v_value, segments) * upstream).sum())

    expected = (
        numerical_gradient(lambda x: objective(x, k, v), q),
        numerical_gradient(lambda x: objective(q, x, v), k),
        numerical_gradient(lambda x: objective(q, k, x), v),
    )
    for ours, numerical in zip(
        attention.attention_gradient(q, k, v, segments_BT=segments, upstream_BTHE=upstream), expected, strict=True
    ):
        close(ours, numerical, FINITE_DIFFERENCE_ATOL)


def test_attention_stays_in_its_segment(rng):
    q, k, v = rng.normal(size=(3, 1, 5, 2, 4))
    packed = attention.attention(q, k, v, [[1, 1, 2, 2, 2]])
    close(packed[:, 2:], attention.attention(q[:, 2:], k[:, 2:], v[:, 2:], [[1, 1, 1]]))


def test_swiglu_by_hand():
    one = np.ones((1, 1))
    close(mlp.swiglu([2.0], one, 3 * one, 5 * one), [2 / (1 + math.exp(-2)) * 6 * 5])


def test_decoder_is_causal_and_greedy_agrees_with_its_logits(rng):
    shape = decoder.Shape(2, 4, 2, 4, 100.0, 1e-5)
    weights = decoder.random_weights(rng, shape, width=8, mlp_width=12, vocab_size=11)
    tokens, positions, segments = np.array([[1, 2, 3, 4]]), np.arange(4)[None], np.ones((1, 4), int)
    whole = decoder.logits(weights, shape, tokens, positions, segments)
    close(whole[:, :3], decoder.logits(weights, shape, tokens[:, :3], positions[:, :3], segments[:, :3]))
    assert decoder.greedy(weights, shape, [1, 2, 3, 4], 1, ())[0] == whole[0, -1].argmax()


@pytest.mark.parametrize("z_loss", [0.0, 0.1])
def test_cross_entropy(rng, z_loss):
    # uniform logits over 4 words: CE = log 4 and log Z = log 4
    total, count = cross_entropy.cross_entropy(np.zeros((3, 4)), [0, 1, 2], [1, 0, 1], z_loss)
    close([total, count], [2 * (math.log(4) + z_loss * math.log(4) ** 2), 2])
    logits, labels, mask = rng.normal(size=(4, 5)), np.array([0, 4, 2, 2]), np.array([1, 1, 0, 1])
    gradient = cross_entropy.cross_entropy_gradient(logits, labels, mask, z_loss)
    close(gradient, numerical_gradient(lambda x: cross_entropy.cross_entropy(x, labels, mask, z_loss)[0], logits),
          FINITE_DIFFERENCE_ATOL)  # fmt: skip


def test_logprobs_and_entropy(rng):
    close(logprob.token_logprobs([[0.0, math.log(3)]], [1]), [math.log(3 / 4)])
    close(logprob.token_logprobs([[0.0, math.log(9)]], [1], temperature=2.0), [math.log(3 / 4)])
    close(logprob.entropy(np.zeros((1, 8))), [math.log(8)])
    logits, labels, upstream = rng.normal(size=(3, 5)), np.array([1, 0, 4]), rng.normal(size=3)
    close(logprob.token_logprobs_gradient(logits, labels, upstream, 1.7),
          numerical_gradient(lambda x: (upstream * logprob.token_logprobs(x, labels, 1.7)).sum(), logits),
          FINITE_DIFFERENCE_ATOL)  # fmt: skip
    close(logprob.entropy_gradient(logits, upstream, 0.6),
          numerical_gradient(lambda x: (upstream * logprob.entropy(x, 0.6)).sum(), logits),
          FINITE_DIFFERENCE_ATOL)  # fmt: skip


def test_pairwise(rng):
    # c = 1, r = 0, margin 1: log 2; centering 0.5 adds 0.5
    close(pairwise.pairwise([1.0], [0.0], [1.0], 0.5), [math.log(2) + 0.5, 1])
    chosen, rejected, margin = rng.normal(size=(3, 6))
    got = pairwise.pairwise_gradient(chosen, rejected, margin, 0.01)
    close(
        got[0],
        numerical_gradient(lambda x: pairwise.pairwise(x, rejected, margin, 0.01)[0], chosen),
        FINITE_DIFFERENCE_ATOL,
    )
    close(
        got[1],
        numerical_gradient(lambda x: pairwise.pairwise(chosen, x, margin, 0.01)[0], rejected),
        FINITE_DIFFERENCE_ATOL,
    )


def test_preference_losses_by_hand():
    # beta 1/2 and a lead of 2 ln 3: sigmoid(ln 3) = 3/4
    pair = ([math.log(3)], [-math.log(3)], [0.0], [0.0])
    close(preference.sigmoid(*pair, beta=0.5), [math.log(4 / 3)])
    close(preference.sigmoid(*pair, beta=0.5, label_smoothing=0.25), [0.75 * math.log(4 / 3) + 0.25 * math.log(4)])
    close(preference.robust(*pair, beta=0.5, label_smoothing=0.25), [1.5 * math.log(4 / 3) - 0.5 * math.log(4)])
    close(preference.hinge(*pair, beta=0.25), [1 - 0.5 * math.log(3)])
    close(preference.ipo(*pair, beta=0.25), [(2 * math.log(3) - 2) ** 2])
    # probabilities a token of 1/2 and 1/4: odds of 1 and 1/3, a ratio of 3
    means = ([-2 * math.log(2)], [-3 * math.log(4)], [2], [3])
    close(preference.orpo(*means, weight=2.0), [math.log(2) + 2 * math.log(4 / 3)])
    close(preference.simpo(*means, beta=1.0, gamma=math.log(2)), [math.log(2)])
    # log-ratios of 1 + ln 3 and 1 around z0 = 1
    close(preference.kto([1 + math.log(3), 1.0], [0.0, 0.0], [1, 0], 1.0, beta=1.0), [0.25, 0.5])
    assert (preference.baseline([1.0, 3.0]), preference.baseline([-1.0])) == (2.0, 0.0)


def test_dpo_gradient_matches_differences(rng):
    c, r, c0, r0 = rng.normal(scale=3.0, size=(4, 6))
    got = preference.sigmoid_gradient(c, r, c0, r0, beta=0.4)
    close(
        got[0],
        numerical_gradient(lambda x: preference.sigmoid(x, r, c0, r0, beta=0.4).sum(), c),
        FINITE_DIFFERENCE_ATOL,
    )
    close(
        got[1],
        numerical_gradient(lambda x: preference.sigmoid(c, x, c0, r0, beta=0.4).sum(), r),
        FINITE_DIFFERENCE_ATOL,
    )


def test_divergences_by_hand():
    # p = (1/2, 1/4, 1/4), q uniform
    p, q = np.array([0.5, 0.25, 0.25]), np.full(3, 1 / 3)
    close(distill.forward_kl(p, q), math.log(3) - 1.5 * math.log(2))
    close(distill.reverse_kl(p, q), math.log(32 / 27) / 3)
    close(distill.jensen_shannon(p, q), math.log(36 / 35) / 4 + math.log(256 / 245) / 6)
    close(distill.forward_kl(*distill.buckets(p, q, 1)), math.log(9 / 8) / 2)
    close(distill.forward_kl(*distill.buckets(p, q, 3)), distill.forward_kl(p, q))
    close(distill.softmax([0.0, 2 * math.log(3)], 2.0), [0.25, 0.75])


def test_the_generalised_divergence_tends_to_both_kls(rng):
    # Agarwal et al. 2024, section 2: JSD / beta -> KL(p || q), JSD / (1 - beta) -> KL(q || p)
    p, q = distill.softmax(rng.normal(size=5)), distill.softmax(rng.normal(size=5))
    close(distill.jensen_shannon(p, q, 1e-3) / 1e-3, distill.forward_kl(p, q), LIMIT_RTOL)
    close(distill.jensen_shannon(p, q, 1 - 1e-3) / 1e-3, distill.reverse_kl(p, q), LIMIT_RTOL)


def test_distillation_gradient_matches_differences(rng):
    teacher, student, mask = rng.normal(size=(3, 5)), rng.normal(size=(3, 5)), np.array([1, 0, 1])
    ours = distill.forward_kl_gradient(teacher, student, mask, 3.0)
    close(ours,
          numerical_gradient(
              lambda x: distill.distillation(teacher, x, mask, distill.forward_kl, 3.0)[0], student),
          FINITE_DIFFERENCE_ATOL)  # fmt: skip


def test_policy_terms_by_hand():
    ratios, advantage = np.array([1.0, 1.5, 0.5, 1.5, 0.5, 4.0]), np.array([2.0, 2.0, 2.0, -2.0, -2.0, -2.0])
    terms, clipped = ppo.policy_terms(
        np.log(ratios), np.zeros(6), advantage, clip_low=0.2, clip_high=0.3, dual_clip=3.0
    )
    close(terms, [-2.0, -2.6, -1.0, 3.0, 1.6, 6.0])
    assert clipped.tolist() == [False, True, False, False, True, True]


@pytest.mark.parametrize("clips", CLIPS)
def test_policy_gradient(rng, clips):
    old, advantage, mask = rng.normal(size=40), rng.normal(size=40), rng.integers(0, 2, 40)
    logp = old + rng.normal(scale=0.5, size=40)
    close(ppo.policy_gradient(logp, old, advantage, mask, **clips),
          numerical_gradient(lambda x: ppo.policy_loss(x, old, advantage, mask, **clips)[0], logp),
          FINITE_DIFFERENCE_ATOL)  # fmt: skip


def test_value_loss(rng):
    # V moved from 0 to 1 with eps 0.2 and R = 1: unclipped error 0, clipped error 0.8^2
    close(ppo.value_loss([1.0], [0.0], [1.0], [1], 0.2), [0.32, 1])
    close(ppo.value_loss([1.0], [0.0], [3.0], [1]), [2.0, 1])
    value, old, returns = rng.normal(size=(3, 40))
    mask = rng.integers(0, 2, 40)
    for clip in (None, 0.2):
        close(ppo.value_gradient(value, old, returns, mask, clip),
              numerical_gradient(lambda x, c=clip: ppo.value_loss(x, old, returns, mask, c)[0], value),
              FINITE_DIFFERENCE_ATOL)  # fmt: skip


def test_gae_by_hand():
    # gamma = lam = 1/2, r = (0, 0, 8), V = (1, 2, 4), ended: deltas (0, 0, 4); A = (4/16, 4/4, 4)
    advantage, returns = gae.gae([[0, 0, 8]], [[1, 2, 4]], [[1, 1, 1]], [0], gamma=0.5, lam=0.5)
    close(advantage, [[0.25, 1.0, 4.0]])
    close(returns, [[1.25, 3.0, 8.0]])
    # the same answer cut off in a state worth 2: the last delta gains gamma * 2 = 1
    close(gae.gae([[0, 0, 8]], [[1, 2, 4]], [[1, 1, 1]], [2], gamma=0.5, lam=0.5)[0], [[5 / 16, 1.25, 5.0]])


def test_adamw_first_step_by_hand():
    # after bias correction the first step is lr * sign(g), plus lr * wd * theta for the matrix only
    optimizer = adamw.AdamW([np.array([[2.0]]), np.array([2.0])], eps=0.0, weight_decay=0.1)
    matrix, vector = optimizer.step(0.01, [np.array([[3.0]]), np.array([-5.0])])
    close(matrix, [[2.0 - 0.01 * (1 + 0.2)]])
    close(vector, [2.0 + 0.01])


def test_global_norm_clip_by_hand():
    clipped, before = adamw.clip([np.array([3.0]), np.array([[4.0]])], 1.0)
    close(before, 5.0)
    close([clipped[0][0], clipped[1][0, 0]], [0.6, 0.8])
    close(adamw.clip([np.zeros(2)], 1.0)[0][0], np.zeros(2))


def test_schedules_by_hand():
    assert [schedules.constant(s, 10, 2) for s in range(4)] == [0.5, 1, 1, 1]
    close([schedules.linear(s, 6, 2, 0.2) for s in range(6)], [0.5, 1, 1, 0.8, 0.6, 0.4])
    close([schedules.cosine(s, 4, 0, 0.0) for s in (0, 2)], [1.0, 0.5])
    close([schedules.wsd(s, 10, 1, 0.0, 0.4) for s in range(10)], [1, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])


def test_sampling_by_hand():
    logits = np.log([0.5, 0.3, 0.2])
    assert [sampling.sample(logits, u)[0] for u in (0.0, 0.49, 0.51, 0.79, 0.81, 0.999)] == [0, 0, 1, 1, 2, 2]
    assert sampling.kept_tokens(logits, top_k=2).tolist() == [True, True, False]
    assert sampling.kept_tokens(logits, top_p=0.5).tolist() == [True, False, False]
    assert sampling.kept_tokens(logits, top_p=0.51).tolist() == [True, True, False]
    close(sampling.sample(logits, 0.9, top_k=2)[1], math.log(0.375))
    assert sampling.kept_tokens(logits, min_p=0.5).tolist() == [True, True, False]
    assert sampling.kept_tokens(logits, min_p=0.61).tolist() == [True, False, False]
    assert sampling.sample(logits, 0.99, temperature=0.0)[0] == 0


def test_repetition_penalty_by_hand():
    close(sampling.penalised([3.0, -1.0, 3.0, -1.0], [0, 1, 1], 2.0), [1.5, -2.0, 3.0, -1.0])


def test_pass_at_k_by_hand():
    """Of four samples with one right, three of the six pairs hold it."""
    assert pass_at_k.pass_at_k([True, False, False, False], 2) == 0.5
    assert pass_at_k.pass_at_k([False, False], 1) == 0.0


def test_cohen_kappa_by_hand():
    """A table of 20, 5, 10, 15 in 50: observed 0.7, expected 0.5."""
    first, second = "y" * 25 + "n" * 25, "y" * 20 + "n" * 5 + "y" * 10 + "n" * 15
    close(kappa.cohen_kappa(first, second), 0.4)
    assert np.isnan(kappa.cohen_kappa("aa", "aa"))


def test_blend_by_hand():
    # halves; the first has one row: behind row 1 it is used up, and the other goes on alone
    sums, positions = blend.targets([(lambda _: Fraction(1), 4, 1), (lambda _: Fraction(1), 8, None)], 4)
    half = Fraction(1, 2)
    assert sums == [[0, 0], [half, half], [1, 1], [1, 2], [1, 3]]
    assert positions == [0, 6, 12, 20, 28]
    assert blend.sequence(sums, 3) == [0, 1, 1]
    assert blend.weight("linear", [(10, 1), (20, 3)], 15) == 2
    close(blend.weight("cosine", [(10, 1), (20, 3)], 12.5), 2 - math.sqrt(0.5))
    assert [blend.weight("steps", [(10, 1), (20, 3)], at) for at in (0, 19, 20, 99)] == [1, 1, 3, 3]
    assert [blend.bound(parts) for parts in (1, 2, 3)] == [0, 0.5, 0.75]


def test_planning_by_hand():
    # width 2, one layer, one head of 2, feed-forward 3, vocabulary 5
    assert planning.llama_parameters((2, 1, 1, 1, 2, 3, 5)) == 10 + (4 + 8 + 4 + 18 + 4) + 2 + 10
    assert planning.llama_parameters((2, 1, 1, 1, 2, 3, 5), tied=True) == 10 + 38 + 2
    assert planning.forward_flops((2, 1, 1, 1, 2, 3, 5), 2, 1) == (2 * 2 * 34 + 2 * 10, 4 * 2 * (0.5 + 1.5))
    assert planning.ring_all_reduce(12.0, 1) == 0 and planning.ring_all_reduce(12.0, 3) == 16.0
    # two ranks, one micro-batch: each waits while the other works
    assert planning.one_forward_one_backward(2, 1) == (1.0, [1, 1])
    assert planning.one_forward_one_backward(3, 6) == (pytest.approx(2 / 6), [3, 2, 1])
