"""A weighted sum of rewards some of which are missing, answer by answer."""

from __future__ import annotations

import math


def combine(weights, scores, required):
    """``scores[p][b]`` is a number or None; gives a number or None for each answer.

    Weights of the rewards that are there are stretched until their sizes add up to those of all of them.
    """
    total = math.fsum(abs(weight) for weight in weights)
    out = []
    for column in zip(*scores, strict=True):
        there = [place for place, score in enumerate(column) if score is not None]
        lacks = any(must and score is None for must, score in zip(required, column, strict=True))
        if lacks or not there:
            out.append(None)
            continue
        stretch = total / math.fsum(abs(weights[place]) for place in there)
        out.append(math.fsum(weights[place] * stretch * column[place] for place in there))
    return out
