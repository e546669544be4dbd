"""How far two lists of grades agree, and how sure a share is. Plain functions of numbers."""

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import correlation, fmean

from worldlm.judge.score import HIGHEST, LOWEST

Z95 = 1.959964


def weighted_kappa(left: Sequence[int], right: Sequence[int]) -> float | None:
    """Cohen's kappa with quadratic weights of two raters' grades (1–5) of the same items.

    1: they agree; 0: as much as chance would have it. None where it is not defined: fewer than two items, or both
    raters give one and the same grade throughout (Cohen 1968, Psychological Bulletin 70).
    """
    _paired(left, right)
    span = (HIGHEST - LOWEST) ** 2
    observed = fmean(((a - b) ** 2 for a, b in zip(left, right, strict=True))) / span if left else 0.0
    expected = fmean(fmean((a - b) ** 2 for b in right) for a in left) / span if left else 0.0
    return None if len(left) < 2 or not expected else 1 - observed / expected


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """The rank correlation of two lists, ties at their mean rank.

    None where it is not defined: fewer than two items, or one list is all the same.
    """
    _paired(left, right)
    if len(left) < 2 or len(set(left)) == 1 or len(set(right)) == 1:
        return None
    return correlation(ranks(left), ranks(right))


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found, before = [0.0] * len(values), 0
    for _, group in groupby(order, key=values.__getitem__):
        same = list(group)
        for index in same:
            found[index] = before + (len(same) + 1) / 2
        before += len(same)
    return found


def wilson(hits: float, trials: int) -> tuple[float, float] | None:
    """The 95 % interval of a share (Wilson 1927). None without trials. `hits` may count a tie as one half."""
    if not trials:
        return None
    share, shrink = hits / trials, 1 + Z95**2 / trials
    middle = (share + Z95**2 / (2 * trials)) / shrink
    half = Z95 * math.sqrt(share * (1 - share) / trials + Z95**2 / (4 * trials**2)) / shrink
    return max(0.0, middle - half), min(1.0, middle + half)


def _paired(left: Sequence[float], right: Sequence[float]) -> None:
    if len(left) != len(right):
        raise ValueError(f"{len(left)} and {len(right)} grades do not belong to the same items")


__all__ = ["ranks", "spearman", "weighted_kappa", "wilson"]
