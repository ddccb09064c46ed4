"""How long something takes, from the few times it was seen: never optimistic while they are few."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean

KEPT = 64
"""Durations remembered: platforms change."""
PRIOR_WEIGHT = 1.0
"""The prior counts as this many durations seen."""
PRIOR_FREEDOM = 3.0
PRIOR_SD = 0.4
"""Of log duration: the 90 % quantile is then about twice the median."""
SD_MIN = 0.05
OFFSET_S = 1.0
"""Added before the logarithm, so that a pause of nothing has one."""
CAREFUL = 0.9
"""The quantile to plan with. What an operator states is taken for it: nobody states the best case."""
STUDENT_T_90 = (1.6377, 1.5332, 1.4759, 1.4398, 1.4149, 1.3968, 1.3830, 1.3722, 1.3634)
"""The 90 % quantile of Student's t with ν₀, ν₀ + 1, ... degrees of freedom."""
SPREAD = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Quantiles that stand for a fifth of the cases each."""
WIDE = 3.0
"""A careful duration this many times the median: the one is not a stand-in for the other."""
FATES = 10.0
"""While few have been seen, the longest this many times the shortest: bad luck does not explain it."""
AGREES = 1.1
"""Durations up to this many times the stated one bear it out: ticks and clocks make up the rest."""
GIVEN_UP = 2.0
"""What was given up would have taken this many times as long as it was waited for."""
LOG_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Durations:
    """The latest durations, and what someone said before there were any.

    The shape is lognormal with unknown mean and variance, so that a next duration y,
    as log(seconds + 1), is distributed as Student's t: from a prior μ₀, σ₀² that
    counts as w₀ durations with ν₀ degrees of freedom, k of them with mean ȳ give

        w = w₀ + k,  ν = ν₀ + k,  μ = (w₀μ₀ + kȳ)/w,
        S = ν₀σ₀² + Σ(y - ȳ)² + (w₀k/w)(ȳ - μ₀)²,        y ~ μ + t_ν·√(S/ν·(1 + 1/w))

    wide while k is small. Wide is safe: a high quantile is never lower for being less well known.

    >>> Durations(120.0).careful_s
    120.0
    """

    stated_s: float
    latest: tuple[float, ...] = ()
    """In seconds, oldest first."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.stated_s) and self.stated_s >= 0):
            raise ValueError(f"a duration of {self.stated_s} s cannot be; it must be a number of at least 0")

    def seen(self, duration_s: float) -> Durations:
        """One more. What cannot be a duration (negative, NaN) changes nothing."""
        if not (math.isfinite(duration_s) and duration_s >= 0):
            return self
        return replace(self, latest=(*self.latest, float(duration_s))[-KEPT:])

    def given_up(self, waited_s: float) -> Durations:
        """One whose end nobody saw: it counts as one that took twice as long as it was waited for."""
        return self.seen(GIVEN_UP * waited_s)

    @property
    def careful_s(self) -> float:
        """Within this long the next one is over, in nine of ten cases.

        With enough seen, the ⌈0.9·(k+1)⌉-th shortest: whatever the shape, the next one is no longer
        than that with probability 0.9, or a little more. Before, what was stated, while all that was
        seen bears it out: a few quick ones are luck. Once one was longer, the quantile of the shape, but no
        less than the longest seen.

        >>> Durations(180.0, (185.0,) * 3).careful_s, Durations(180.0, (185.0, 210.0)).careful_s > 300
        (185.0, True)
        """
        k = len(self.latest)
        place = math.ceil(CAREFUL * (k + 1) - 1e-9)
        if 1 <= place <= k:
            return sorted(self.latest)[place - 1]
        longest_s = max(self.stated_s, *self.latest) if k else self.stated_s
        if longest_s <= AGREES * self.stated_s:
            return longest_s
        mean, scale = self._shape()
        shaped_s = math.exp(min(mean + scale * STUDENT_T_90[k], LOG_MAX)) - OFFSET_S
        return max(shaped_s, longest_s)

    @property
    def spread_s(self) -> tuple[float, ...]:
        """Durations that are equally likely, shortest first; none where `careful_s` says it all.

        That is so where nine of ten take about as long as half of them. Few that differ ever so much are two
        fates: those that came, and those that found no GPU. One number for both would say that nobody comes.

        >>> Durations(180.0, (185.0, 7200.0)).spread_s, Durations(180.0, (185.0, 400.0)).spread_s
        ((185.0, 185.0, 7200.0, 7200.0, 7200.0), ())
        """
        k = len(self.latest)
        if k == 0:
            return ()
        spread = self._quantiles()
        if math.ceil(CAREFUL * (k + 1) - 1e-9) > k:
            return spread if spread[-1] > FATES * spread[0] else ()
        return spread if spread[-1] > WIDE * spread[len(SPREAD) // 2] else ()

    def _quantiles(self) -> tuple[float, ...]:
        ordered = sorted(self.latest)
        return tuple(ordered[min(math.floor(level * len(ordered)), len(ordered) - 1)] for level in SPREAD)

    def _shape(self) -> tuple[float, float]:
        """(μ, scale) of the t distribution of the next log(seconds + 1)."""
        prior_scale = PRIOR_SD * math.sqrt(1 + 1 / PRIOR_WEIGHT)
        prior = math.log(self.stated_s + OFFSET_S) - prior_scale * STUDENT_T_90[0]
        logs = [math.log(duration_s + OFFSET_S) for duration_s in self.latest]
        k, centre = len(logs), fmean(logs)
        weight, freedom = PRIOR_WEIGHT + k, PRIOR_FREEDOM + k
        spread = PRIOR_FREEDOM * PRIOR_SD**2 + sum((log - centre) ** 2 for log in logs)
        spread += PRIOR_WEIGHT * k / weight * (centre - prior) ** 2
        mean = (PRIOR_WEIGHT * prior + k * centre) / weight
        variance = max(spread / freedom, SD_MIN**2)
        return mean, math.sqrt(variance * (1 + 1 / weight))
