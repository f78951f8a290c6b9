"""From scores of answers to rewards of tokens."""

from __future__ import annotations

import numpy as np

from llmstack.rl.kl import k1


def token_rewards(
    logp_BR: np.ndarray,
    ref_logp_BR: np.ndarray,
    response_mask_BR: np.ndarray,
    score_B: np.ndarray,
    *,
    beta: float,
) -> np.ndarray:
    """``r_t = -beta (logp_t - ref_logp_t)``, plus the answer's score at its last real token.

    Ziegler et al. 2019, equation 2; Ouyang et al. 2022 (InstructGPT), equation 2 without its pretraining term. Moving
    away from the reference, i.e. raising ``logp - ref_logp``, lowers the reward. The last token is found in the mask,
    so that a pad id equal to an end id, pads on either side and an answer that fills R all give the same rewards.

    Args:
        logp_BR: (B, R) float, log-probability of the sampled token under the policy that sampled it.
        ref_logp_BR: (B, R) float, the same under the reference at the same temperature.
        response_mask_BR: (B, R) 1 for the answer's tokens, the end token included.
        score_B: (B,) float, score of the whole answer.
        beta: weight of the KL term.

    Returns:
        reward_BR: (B, R) float32, 0 where the mask is 0. A row with no real token gets no score.
    """
    reward_BR = -beta * k1(logp_BR, ref_logp_BR, response_mask_BR)
    last_B, present_B = last_real_token(response_mask_BR)
    rows = np.flatnonzero(present_B)
    reward_BR[rows, last_B[rows]] += np.asarray(score_B, np.float32)[rows]
    return reward_BR


def shaped_scores(score_B: np.ndarray, *, std: float, clip: float | None) -> np.ndarray:
    """``clip(score / std, -clip, clip)``: scores in units of their deviation, none of which rules an iteration.

    The mean is not taken off, so that the sign of a score keeps its meaning (Engstrom et al. 2020, section 3, do the
    same with rewards).

    Args:
        score_B: (B,) float.
        std: their deviation, above 0; 1 leaves them.
        clip: the bound; None leaves it out.

    Returns:
        (B,) float32.
    """
    scaled_B = np.asarray(score_B, np.float64) / std
    return (scaled_B if clip is None else np.clip(scaled_B, -clip, clip)).astype(np.float32)


def last_real_token(response_mask_BR: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each answer ends.

    Args:
        response_mask_BR: (B, R) 1 for the answer's tokens.

    Returns:
        (last_B, present_B): int64 index of the last 1 of a row (0 when it has none), and bool, True for rows that have
            one.
    """
    real_BR = np.asarray(response_mask_BR) != 0
    present_B = real_BR.any(axis=-1)
    last_B = real_BR.shape[-1] - 1 - real_BR[:, ::-1].argmax(axis=-1)
    return np.where(present_B, last_B, 0), present_B


def end_answers(
    score_B: np.ndarray,
    finished_B: np.ndarray,
    *,
    next_value_B: np.ndarray,
    missing_eos_score: float | None,
) -> tuple[np.ndarray, np.ndarray]:
    """What follows the last token of each answer: its score, or the value of going on.

    An answer that ended earns its score and nothing comes after it. One that was cut off by the length limit did not
    end: without a penalty its score is withheld and the value of the state it reached stands in for the rest (Pardo et
    al. 2018, "Time Limits in Reinforcement Learning": partial-episode bootstrapping); paying both would count the
    score twice and reward running on. With a penalty it is taken as ended with ``missing_eos_score`` instead of its
    score.

    Args:
        score_B: (B,) float, scores of the reward source.
        finished_B: (B,) 1 for answers that ended with an end token.
        next_value_B: (B,) float, V of the state after the last real token.
        missing_eos_score: score of a cut-off answer; None bootstraps it.

    Returns:
        (score_B, bootstrap_value_B): (B,) float32 each, for ``token_rewards`` and ``gae``.
    """
    finished = np.asarray(finished_B) != 0
    if missing_eos_score is not None:
        return np.where(finished, score_B, missing_eos_score).astype(np.float32), np.zeros(finished.shape, np.float32)
    return np.where(finished, score_B, 0.0).astype(np.float32), np.where(finished, 0.0, next_value_B).astype(np.float32)
