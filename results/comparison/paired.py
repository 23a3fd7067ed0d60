"""Statistics of paired differences: their size, how certain it is, and the correction for many comparisons.

A difference belongs to a *unit* (here a trial). All that lies within a unit (its lanes, fault cycles, operations) has
been reduced to one number before, so nothing is assumed about how the parts of a unit depend on one another.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

EXACT_UP_TO: Final = 200
"""The most differences for which the exact distribution of the signed ranks is used; for more, the normal one."""


def signed_rank(differences: Sequence[float]) -> float:
    """One-sided P value of Wilcoxon's signed-rank test that the differences' centre is above 0; 1 if there are none.

    The test is exact for up to `EXACT_UP_TO` differences, also with equal sizes: given the sizes, all 2^n signs are
    equally likely if the centre is 0 and the distribution symmetric. A table says how many of them give each sum of
    ranks. It is made by adding one rank after the other. Zeros say nothing and are left out.
    Source: Wilcoxon, Biometrics Bulletin 1, 1945; Pratt and Gibbons, Concepts of Nonparametric Theory, 1981, ch. 3.
    """
    values = np.asarray([difference for difference in differences if difference], np.float64)
    if not len(values):
        return 1.0
    _, place, count = np.unique(np.abs(values), return_inverse=True, return_counts=True)
    ranks: npt.NDArray[np.int64] = (2 * np.cumsum(count) - count + 1)[place]  # twice the ranks; ties share their mean
    reached = int(ranks[values > 0].sum())
    if len(values) <= EXACT_UP_TO:
        return min(float(_sums(tuple(sorted(ranks.tolist())))[reached:].sum()), 1.0)
    mean, variance = ranks.sum() / 2, float((ranks.astype(np.float64) ** 2).sum()) / 4
    return 1 - NormalDist(mean, math.sqrt(variance)).cdf(reached - 1)  # - 1: for continuity; ranks are doubled


def least(units: int) -> float:
    """The smallest P value that so many differences can have."""
    return 0.5**units


def centre(differences: Sequence[float]) -> float:
    """The median of the means of all pairs, a number with itself included: the centre that goes with the signed ranks.

    Source: Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963. Raises ValueError if there is no difference.
    """
    if not differences:
        raise ValueError("no differences")
    return float(np.median(_means(differences)))


def interval(differences: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """The centres that the signed ranks do not reject at that confidence, two-sided; None for too few differences.

    Source: Tukey 1949, in Hollander and Wolfe, Nonparametric Statistical Methods, 1973, section 3.4.
    """
    n = len(differences)
    if n == 0 or 2 * least(n) > 1 - confidence:
        return None
    means = np.sort(_means(differences))
    if n <= EXACT_UP_TO:
        sums = np.cumsum(_sums(tuple(range(1, n + 1))))
        outside = int(np.searchsorted(sums, (1 - confidence) / 2, "right"))
    else:
        mean, deviation = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        outside = math.floor(mean - NormalDist().inv_cdf((1 + confidence) / 2) * deviation)
    return float(means[outside - 1]), float(means[len(means) - outside])


def holm(values: Sequence[float]) -> list[float]:
    """P values corrected for their number: the chance that even one value below a bound is a false alarm stays below
    that bound, however the values depend on one another.

    Source: Holm, Scandinavian Journal of Statistics 6, 1979.
    """
    corrected = [1.0] * len(values)
    highest = 0.0
    for place, at in enumerate(sorted(range(len(values)), key=lambda n: values[n])):
        highest = max(highest, min((len(values) - place) * values[at], 1.0))
        corrected[at] = highest
    return corrected


def able(leasts: Sequence[float], alpha: float) -> list[bool]:
    """Which of many tests could be significant at all, by the smallest P values that they can have.

    The other tests are not worth correcting for. Only the number of differences decides this, not their sizes.
    Source: Tarone, Biometrics 46, 1990.
    """
    for many in range(1, len(leasts) + 1):
        if sum(value * many <= alpha for value in leasts) <= many:
            return [value * many <= alpha for value in leasts]
    return [False] * len(leasts)


@lru_cache(maxsize=1024)
def _sums(ranks: tuple[int, ...]) -> Floats:
    """The chance of each sum of ranks, from 0 on, if each rank is counted or not with equal chances.

    The result depends on the ranks alone, and so on hardly more than the number of ranks.
    """
    chance = np.zeros(sum(ranks) + 1)
    chance[0] = 1.0
    for rank in ranks:
        counted = np.zeros_like(chance)
        counted[rank:] = chance[:-rank]
        chance = (chance + counted) / 2
    chance.setflags(write=False)
    return chance


def _means(differences: Sequence[float]) -> Floats:
    values = np.asarray(differences, np.float64)
    first, second = np.triu_indices(len(values))
    means: Floats = (values[first] + values[second]) / 2
    return means
