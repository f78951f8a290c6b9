"""Blends of several parts: targets row by row, and the sequence of Tijdeman (1980) with every deadline looked up.

Works on ``Fraction`` as on ``float``; a part is ``(weight, tokens_per_row, room)``: a function of the tokens so far, a
number, and how many rows may be taken (None: any number).
"""

from __future__ import annotations

import math

NOTHING = 1e-9
"""Of a row; below it floating-point targets do not differ."""


def weight(shape, points, tokens):
    """Weight at a position; ``points`` are (position, weight), rising. Outside of them it stays what it is there."""
    if tokens <= points[0][0]:
        return points[0][1]
    for (start, before), (end, after) in zip(points, points[1:], strict=False):
        if start <= tokens < end:
            if shape == "steps":
                return before
            way = (tokens - start) / (end - start)
            if shape == "cosine":
                way = (1 - math.cos(math.pi * way)) / 2
            return before + (after - before) * way
    return points[-1][1]


def targets(parts, num_rows):
    """``t_{i+1} = t_i + sum_k s_k(t_i) d_k``: sums of shares at every prefix, and the position of each prefix.

    A row is poured: all parts with a weight give in proportion to their weights until one has nothing left, then the
    others go on. A row that cannot be filled is not there.

    Args:
        parts: see the module. num_rows: at most so many rows.

    Returns:
        (list of lists of K sums, list of positions), both one longer than there are rows.
    """
    sums, positions = [[0 for _ in parts]], [0]
    for _ in range(num_rows):
        given = _pour(parts, sums[-1], positions[-1])
        if given is None:
            break
        sums.append([old + new for old, new in zip(sums[-1], given, strict=True)])
        positions.append(positions[-1] + sum(new * part[1] for new, part in zip(given, parts, strict=True)))
    return sums, positions


def _pour(parts, sums, position):
    left = [math.inf if room is None else room - old for (_, _, room), old in zip(parts, sums, strict=True)]
    weights = [of(position) if rest > NOTHING else 0 for (of, _, _), rest in zip(parts, left, strict=True)]
    given, empty = [0 for _ in parts], 1
    while empty > NOTHING:
        total = sum(weights)
        if not total > 0:
            return None
        until = [rest * total / own for own, rest in zip(weights, left, strict=True) if own > 0 and rest < math.inf]
        flow = min([empty, *until])
        for number, own in enumerate(weights):
            given[number] += flow * own / total
            left[number] -= flow * own / total
        weights = [own if rest > NOTHING else 0 for own, rest in zip(weights, left, strict=True)]
        empty -= flow
    return given


def sequence(sums, num_rows):
    """Tijdeman's algorithm with K parts and ``c = 1 / (2K - 2)``.

    Row n may be given by the parts that lack at least c of a row in target n + 1; of these it is given by the one whose
    target first reaches what it gave so far, plus ``1 - c``. Ties go to the earlier part.

    Args:
        sums: targets, further than ``num_rows`` (a deadline that is not among them is none). num_rows: rows wanted.

    Returns:
        The part of each row.
    """
    num_parts = len(sums[0])
    if num_parts == 1:
        return [0] * num_rows
    least = type(sums[-1][0])(1) / (2 * num_parts - 2)
    taken, chosen = [0] * num_parts, []
    for row in range(num_rows):
        fitting = [part for part in range(num_parts) if sums[row + 1][part] - taken[part] >= least]

        def deadline(part, row=row):
            ends = (n for n in range(row + 1, len(sums)) if sums[n][part] - taken[part] >= 1 - least)
            return next(ends, math.inf)

        chosen.append(min(fitting, key=lambda part: (deadline(part), part)))
        taken[chosen[-1]] += 1
    return chosen


def bound(num_parts):
    """How far the rows taken may be from the target at any prefix: ``1 - 1 / (2K - 2)``; 0 for one part."""
    return 1 - 1 / (2 * num_parts - 2) if num_parts > 1 else 0.0
