"""The troubles that are looked for in a stage's log. Each function is a rule; ``docs/health.md`` has them in a table.

A rule whose metrics a stage does not report finds nothing, so no rule knows what kind of stage it reads.
"""

from __future__ import annotations

import math

import numpy as np

from llmstack.engine.health import FIRST, Finding, Readings, Rule, all_of, correlation

KL, ENTROPY, CLIPPED = "train/token_kl_policy_ref", "train/entropy", "train/clip_fraction"
LENGTH, SCORE, LOSS = "train/response_tokens", "train/score_mean", "train/loss"


def kl_runaway(seen: Readings) -> Finding:
    """The KL grows by 30 % in four readings and is above 0.3 nats a token, or is above 2 however it moves."""
    now, before = seen.mean(KL, 4), seen.mean(KL, 4, before=4)
    growth = now / max(before, 1e-6)
    growing = all_of(now / 0.3, growth / 1.3)
    severity = growing if math.isnan(growing) else max(growing, now / 2.0)
    return Finding(
        severity,
        f"The policy is running away from the reference ({now:.2f} nats a token, {before:.2f} four readings before): "
        "raise kl.beta, or lower optim.lr or epochs.",
    )


def entropy_collapse(seen: Readings) -> Finding:
    """The entropy is below a fifth of what it was at the beginning."""
    first, now = seen.first(ENTROPY), seen.mean(ENTROPY, 4)
    return Finding(
        0.2 * first / max(now, 1e-6),
        f"The policy has almost stopped exploring (entropy {now:.2f} nats a token, {first:.2f} at the beginning): "
        "unless the score is as high as it can be, raise entropy_coef, kl.beta or clip_high, or lower optim.lr.",
    )


def length_growth(seen: Readings) -> Finding:
    """Answers are twice as long as at the beginning, and the score has not grown along with them."""
    first, now = seen.first(LENGTH), seen.mean(LENGTH, 4)
    # without a score nobody can say that they are no better
    told = seen.knows(SCORE) and not _score_follows_length(seen) >= 0.8
    return Finding(
        now / (2.0 * max(first, 1.0)) if told else math.nan,
        f"Answers grow longer without growing better ({now:.0f} tokens, {first:.0f} at the beginning): shorten "
        "response_len, or take length out of the reward with a length term.",
    )


def reward_hacking_by_length(seen: Readings) -> Finding:
    """Within 16 readings answers grow by 30 %, and the score rises in step with them."""
    start, end = seen.mean(LENGTH, 4, before=12), seen.mean(LENGTH, 4)
    growth, together = end / max(start, 1.0), _score_follows_length(seen)
    return Finding(
        all_of(growth / 1.3, together / 0.8),
        f"The score may be paid for length ({start:.0f} to {end:.0f} tokens with a correlation of {together:.2f}): "
        "read samples.jsonl, check the reward for a bias to length, and add a length term to it.",
    )


def _score_follows_length(seen: Readings) -> float:
    """Correlation of score and length over 16 readings; NaN when it is not known."""
    return correlation(seen.latest(LENGTH, 16), seen.latest(SCORE, 16))


def value_not_learning(seen: Readings) -> Finding:
    """The explained variance is not positive in 11 of the last 12 readings, and is not on its way there."""
    explained = seen.latest("train/explained_variance", 12)
    share = float((explained <= 0.0).mean()) if explained.size else math.nan
    rising = _mean(explained[8:]) > _mean(explained[:4]) + 0.1
    return Finding(
        math.nan if rising else share / 0.9,
        f"The critic foresees nothing (explained variance {_mean(explained):.2f} over 12 readings): raise critic.lr, "
        "give it critic.warmup_iterations, or start it from the reward model by critic.init_from.",
    )


def equal_groups(seen: Readings) -> Finding:
    """In 70 % of the groups all answers have the same score, over six readings."""
    share = seen.mean("train/zero_spread_ratio", 6)
    return Finding(
        share / 0.7,
        f"Most groups teach nothing (in {share:.0%} of them all answers have one score): choose prompts that are "
        "neither too easy nor too hard, raise samples_per_prompt or temperature, or use a finer reward.",
    )


def clipping_too_much(seen: Readings) -> Finding:
    """Over 30 % of the ratios lie outside the clip range, over six readings."""
    share = seen.mean(CLIPPED, 6)
    return Finding(
        share / 0.3,
        f"Updates are too large for the clip range ({share:.0%} of the ratios are clipped): lower optim.lr or epochs, "
        "or use more answers an iteration.",
    )


def no_effect(seen: Readings) -> Finding:
    """For twelve readings the policy is where the reference is, and an iteration does not move it."""
    far, moved = _largest(seen.latest(KL, 12)), _largest(seen.latest("train/kl_old_new", 12))
    still = 1.0 if math.isnan(moved) else 1e-6 / max(moved, 1e-12)
    return Finding(
        all_of(1e-4 / max(far, 1e-12), still),
        f"Updates change nothing (at most {far:.0e} nats a token from the reference in 12 readings): raise optim.lr, "
        "or look whether the scores differ at all.",
    )


def many_unscored(seen: Readings) -> Finding:
    """A fifth of the answers has no score, over four readings."""
    share = seen.mean("train/unscored_ratio", 4)
    return Finding(
        share / 0.2,
        f"The reward leaves {share:.0%} of the answers without a score: look in the run's log for what fails, and in "
        "samples.jsonl for answers that it cannot read.",
    )


def many_truncated(seen: Readings) -> Finding:
    """Half of the answers is cut off, over four readings."""
    share = seen.mean("train/truncated_ratio", 4)
    return Finding(
        share / 0.5,
        f"Most answers never end ({share:.0%} are cut off at response_len): raise response_len, score an answer that "
        "does not end lower, or train the end token longer in the stage before.",
    )


def many_empty(seen: Readings) -> Finding:
    """A third of the answers ends at once, over four readings."""
    share = seen.mean("train/empty_ratio", 4)
    return Finding(
        share / 0.33,
        f"Many answers end at once ({share:.0%} have one token or none): look whether the reward prefers no answer to "
        "a wrong one, and raise kl.beta.",
    )


def sampler_mismatch(seen: Readings) -> Finding:
    """Sampler and training graph differ by 0.1 nats on a token, over four readings."""
    mismatch = seen.mean("train/sampler_mismatch", 4)
    return Finding(
        mismatch / 0.1,
        f"The sampler and the training graph disagree (by up to {mismatch:.2f} nats on a token): keep the model in "
        "float32, and report it if it already is, because the two should be equal.",
    )


def loss_not_falling(seen: Readings) -> Finding:
    """In the last twelve readings the loss was never, as a mean of four, 1 % below its beginning, nor far above it."""
    first, recent = seen.first(LOSS), seen.latest(LOSS, 12)
    lowest, now = min(_means(recent, 4), default=math.nan), seen.mean(LOSS, 4)
    if seen.knows(SCORE) or not first > 0 or seen.window(LOSS).size < FIRST + 12:
        return Finding(math.nan, "")
    # 1 at 99 % of the beginning, over at 97 %
    severity = 1.0 - 12.5 * (0.99 - lowest / first)
    return Finding(
        0.0 if now > 1.25 * first else severity,
        f"The loss does not fall ({first:.3f} at the beginning, {now:.3f} now): raise optim.lr, shorten the warm-up, "
        "or check that the data is what the model should learn.",
    )


def loss_exploding(seen: Readings) -> Finding:
    """The loss is half as much again as its lowest within 16 readings, and 0.5 above it; all as means of three."""
    means = _means(seen.window(LOSS), 3)
    if seen.knows(SCORE) or len(means) < 4:
        return Finding(math.nan, "")
    lowest, now = min(means), means[-1]
    return Finding(
        all_of(now / (1.5 * max(lowest, 1e-6)), (now - lowest) / 0.5),
        f"The loss is exploding ({lowest:.3f} before, {now:.3f} now): lower optim.lr or optim.max_grad_norm, "
        "lengthen the warm-up, or look at the data of these steps in rows.jsonl.",
    )


def steps_skipped(seen: Readings) -> Finding:
    """A tenth of the steps between eight readings had a gradient that was not finite."""
    skipped, passed = seen.latest("train/skipped_steps", 8), seen.steps_between("train/skipped_steps", 8)
    share = float(skipped[-1] - skipped[0]) / passed if skipped.size and passed > 0 else math.nan
    return Finding(
        share / 0.1,
        f"Gradients are often not finite ({share:.0%} of the last {passed} steps changed nothing): lower optim.lr, or "
        "look at the data of these steps in rows.jsonl.",
    )


def _mean(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else math.nan


def _largest(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.abs(finite).max()) if finite.size else math.nan


def _means(values: np.ndarray, width: int) -> list[float]:
    """Means of all runs of so many neighbours that are not null altogether."""
    means = (_mean(values[start : start + width]) for start in range(len(values) - width + 1))
    return [mean for mean in means if not math.isnan(mean)]


RULES: tuple[Rule, ...] = (
    kl_runaway,
    entropy_collapse,
    length_growth,
    reward_hacking_by_length,
    value_not_learning,
    equal_groups,
    clipping_too_much,
    no_effect,
    many_unscored,
    many_truncated,
    many_empty,
    sampler_mismatch,
    loss_not_falling,
    loss_exploding,
    steps_skipped,
)
"""All rules, in the order in which they speak."""
