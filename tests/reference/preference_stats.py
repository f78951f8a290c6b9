"""Calibration (Guo et al. 2017, equation 3) and Pearson's correlation, pair by pair."""

from __future__ import annotations

import math


def calibration(leads, bins=10):
    """Puts each choice into its bin, then compares how often and how surely each bin is right."""
    width = 0.5 / bins
    held = [[] for _ in range(bins)]
    for lead in leads:
        confidence = 1 / (1 + math.exp(-abs(lead)))
        right = 1.0 if lead > 0 else 0.5 if lead == 0 else 0.0
        place = 0
        while place < bins - 1 and confidence > 0.5 + (place + 1) * width:
            place += 1
        held[place].append((confidence, right))
    error = 0.0
    for entries in held:
        if entries:
            sure = math.fsum(confidence for confidence, _ in entries) / len(entries)
            often = math.fsum(right for _, right in entries) / len(entries)
            error += len(entries) / len(leads) * abs(often - sure)
    return error


def pearson(xs, ys):
    """Covariance over the product of the deviations."""
    n = len(xs)
    mean_x, mean_y = math.fsum(xs) / n, math.fsum(ys) / n
    cov = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / n
    var_x = math.fsum((x - mean_x) ** 2 for x in xs) / n
    var_y = math.fsum((y - mean_y) ** 2 for y in ys) / n
    return cov / math.sqrt(var_x * var_y)
