"""Arrival rates as a pure function of simulated time.

A shape knows the past as well as the future: `rate_per_s` may be asked for any
instant, in any order, and gives the same answer for the same seed. So the
history that a forecaster starts from and the traffic it then sees are one series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from forecasting.errors import InvalidTraffic
from forecasting.history import Rates, TrafficHistory

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
MONDAY_S = 4 * DAY_S
"""The epoch began on a Thursday; the first Monday came four days later."""

_INSTANTS = 16
"""Of a bin, at which its mean rate is taken."""
_OCTAVES_S = (60.0, 300.0, 1800.0, 7200.0)
"""Time scales of the noise. Real traffic wanders on all of them at once."""


class TrafficShape(Protocol):
    """How many samples arrive a second, at every instant of simulated time."""

    @property
    def end_s(self) -> float:
        """Nothing is known from here on; infinity for a shape without end."""
        ...

    def rates(self, at_s: NDArray[np.float64]) -> Rates:
        """The rate at each of these instants."""
        ...


@dataclass(frozen=True, slots=True)
class FlashCrowd:
    """A sudden crowd: from nothing to `height` times the mean rate in `rise_s`, then ebbing away.

    It falls exponentially: after each `fall_s` a little over a third of it is left.

    >>> crowd = FlashCrowd(start_s=100.0, height=2.0, rise_s=10.0, fall_s=60.0)
    >>> [round(float(lift), 2) for lift in crowd.lift(np.array([99.0, 105.0, 110.0, 170.0]))]
    [0.0, 1.0, 2.0, 0.74]
    """

    start_s: float
    height: float
    rise_s: float = 120.0
    fall_s: float = 1800.0

    def __post_init__(self) -> None:
        if not (self.height >= 0 and self.rise_s > 0 and self.fall_s > 0):
            raise InvalidTraffic(f"{self}: height must not be negative, rise_s and fall_s must be positive")

    def lift(self, at_s: NDArray[np.float64]) -> Rates:
        """What the crowd adds, in multiples of the mean rate."""
        since_s = at_s - self.start_s
        rising = np.clip(since_s / self.rise_s, 0.0, 1.0)
        ebbing = np.exp(-np.maximum(since_s - self.rise_s, 0.0) / self.fall_s)
        lift: Rates = self.height * rising * ebbing
        return lift


@dataclass(frozen=True, slots=True)
class SyntheticTraffic:
    """Days, weeks, autocorrelated noise and flash crowds around a mean rate. Never negative.

    >>> day = SyntheticTraffic(mean_per_s=100.0, noise=0.0)
    >>> night, evening = day.rate_per_s(MONDAY_S + 8 * 3600), day.rate_per_s(MONDAY_S + 20 * 3600)
    >>> round(night), round(evening)
    (59, 179)
    """

    mean_per_s: float = 1000.0
    diurnal: float = 0.6
    """Half the swing between night and evening, as a share of the mean."""
    peak_hour: float = 20.0
    """When the day is busiest, in hours after midnight UTC."""
    weekly: float = 0.15
    """How far the weekend falls below a weekday, as a share of the mean."""
    noise: float = 0.06
    """Standard deviation of the noise, as a share of the rate."""
    crowds: tuple[FlashCrowd, ...] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        shares = (self.diurnal, self.weekly, self.noise)
        if not (math.isfinite(self.mean_per_s) and self.mean_per_s >= 0 and all(s >= 0 for s in shares)):
            raise InvalidTraffic(f"{self}: the mean and the shares must be finite and not negative")

    @property
    def end_s(self) -> float:
        return math.inf

    def rate_per_s(self, at_s: float) -> float:
        """The rate at one instant."""
        return float(self.rates(np.array([at_s]))[0])

    def rates(self, at_s: NDArray[np.float64]) -> Rates:
        hour = (at_s % DAY_S) / 3600.0 - self.peak_hour
        # The second harmonic makes the night broad and the evening steep, as people are.
        day = np.cos(hour * math.pi / 12) + 0.25 * np.cos(hour * math.pi / 6)
        weekend = np.where((at_s - MONDAY_S) % WEEK_S >= 5 * DAY_S, 1.0, 0.0)
        level = 1.0 + self.diurnal * day - self.weekly * (weekend - 2 / 7)
        for crowd in self.crowds:
            level = level + crowd.lift(at_s)
        wander = np.exp(self.noise * _noise(at_s, self.seed))
        rates: Rates = self.mean_per_s * np.maximum(level, 0.0) * wander
        return rates

    def history(self, *, until_s: float, step_s: float, days: float) -> TrafficHistory:
        """The past up to `until_s` on a grid of `step_s`, before anything is counted: see `counted`."""
        return shape_history(self, until_s=until_s, step_s=step_s, days=days)


def shape_history(shape: TrafficShape, *, until_s: float, step_s: float, days: float) -> TrafficHistory:
    """Mean rates of the `days` before `until_s`: a meter tells means, which move less than instants do."""
    bins = max(1, round(days * DAY_S / step_s))
    start_s = until_s - bins * step_s
    instants = start_s + (np.arange(bins * _INSTANTS, dtype=np.float64) + 0.5) * (step_s / _INSTANTS)
    rates = shape.rates(instants).reshape(bins, _INSTANTS).mean(axis=1)
    return TrafficHistory(start_s=start_s, step_s=step_s, rates=rates)


def counted(history: TrafficHistory, *, seed: int) -> TrafficHistory:
    """What a meter would have seen of these rates: whole samples, as many in a bin as chance has it.

    A model that learns from the rates themselves takes the traffic to come for steadier than it is.

    >>> rates = TrafficHistory(start_s=0.0, step_s=2.0, rates=np.array([100.0, 100.0]))
    >>> [float(rate) for rate in counted(rates, seed=1).rates]
    [99.0, 108.0]
    """
    drawn = np.random.default_rng([seed, 3]).poisson(history.rates * history.step_s)
    return replace(history, rates=drawn / history.step_s)


def played(history: TrafficHistory, *, speed_up: float, end_s: float) -> TrafficHistory:
    """The same rates as a past that was played `speed_up` times faster and ended at `end_s`.

    A demo that plays a day in ten minutes measures in wall time; its past must be
    in wall time too. Rates are per wall second throughout, so they stay as they are.

    >>> past = TrafficHistory(start_s=0.0, step_s=144.0, rates=np.array([5.0, 6.0]))
    >>> faster = played(past, speed_up=144.0, end_s=1000.0)
    >>> faster.start_s, faster.step_s
    (998.0, 1.0)
    """
    step_s = history.step_s / speed_up
    return TrafficHistory(start_s=end_s - step_s * len(history.rates), step_s=step_s, rates=history.rates)


def _noise(at_s: NDArray[np.float64], seed: int) -> Rates:
    """Unit-variance noise: normal values on a lattice for each time scale, joined smoothly.

    Each lattice value is a hash of (seed, scale, index), so any instant can be had
    without walking there: an autoregressive process could not look back a week.
    """
    total = np.zeros_like(at_s)
    for octave, scale_s in enumerate(_OCTAVES_S):
        cell = np.floor(at_s / scale_s)
        into = at_s / scale_s - cell
        ease = into * into * (3.0 - 2.0 * into)
        left, right = (_normal(cell + shift, octave, seed) for shift in (0, 1))
        # Divided by its own deviation, a blend of two independent values keeps unit variance.
        total += (left * (1 - ease) + right * ease) / np.sqrt((1 - ease) ** 2 + ease**2)
    noise: Rates = total / math.sqrt(len(_OCTAVES_S))
    return noise


def _normal(cell: NDArray[np.float64], octave: int, seed: int) -> Rates:
    """A standard normal value for each lattice cell, the same every time."""
    key = cell.astype(np.int64).astype(np.uint64) + np.uint64((seed * 1_000_003 + octave * 7919) % 2**63)
    first, second = _uniform(key), _uniform(key ^ np.uint64(0x9E3779B97F4A7C15))
    normal: Rates = np.sqrt(-2.0 * np.log(first)) * np.cos(2 * math.pi * second)
    return normal


def _uniform(key: NDArray[np.uint64]) -> Rates:
    """SplitMix64's finaliser, as a number in (0, 1)."""
    mixed = key * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    uniform: Rates = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return uniform
