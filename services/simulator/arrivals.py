"""Seconds of traffic made from the bins of a trace, without telling the future.

Interpolating between the centres of bins would leak the next bin into this one:
three lines of extrapolation then look like foresight. So a bin's rate is held,
and a seeded noise moves it from minute to minute while the bin keeps its volume.
Gusts, where they are wanted, do the same from second to second within each minute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.simulator.errors import NothingToJudge, TraceInvalid
from services.simulator.trace import Floats, Trace

NOISE_CV = 0.05
NOISE_MEMORY = 0.8
"""Correlation of the noise from one minute to the next."""
GUST_MEMORY = 0.9
"""Correlation of gusts from one second to the next: they last for some ten seconds."""
PEAK_QUANTILE = 0.999
DAY_S = 86_400


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Samples arriving in each second; second 0 is at `start_s` on the trace's own clock."""

    start_s: float
    per_second: Floats

    @property
    def minutes(self) -> Floats:
        """Mean rate of each whole minute."""
        whole = len(self.per_second) // 60
        means: Floats = self.per_second[: whole * 60].reshape(whole, 60).mean(axis=1)
        return means

    def part(self, first_s: int, last_s: int) -> Arrivals:
        """The seconds [first_s, last_s)."""
        return Arrivals(self.start_s + first_s, self.per_second[first_s:last_s])


def arrivals_of(trace: Trace, *, scale: float, seed: int, gusts: float = 0.0) -> Arrivals:
    """Every second of the trace, times `scale`; seconds differ by `gusts` (relative) within a minute.

    A trace whose own step is a minute or less is held as it is. The last minute is
    kept only when it is whole, so that minutes and seconds agree.
    """
    seconds = int(trace.span_s // 60) * 60
    if seconds == 0:
        raise NothingToJudge(f"{trace.name} lasts {trace.span_s:g} s; at least a minute is needed")
    start_s = float(trace.starts_s[0])
    at_s = start_s + np.arange(seconds) + 0.5
    bin_of = np.searchsorted(trace.starts_s, at_s, side="right") - 1
    rates = trace.rates[bin_of] * scale
    if not trace.is_native_minute:
        minutes = _noise(seconds // 60, cv=NOISE_CV, memory=NOISE_MEMORY, seed=[seed, 1])
        rates *= _renormalised(np.repeat(minutes, 60), bin_of)
    if gusts > 0:
        by_second = _noise(seconds, cv=gusts, memory=GUST_MEMORY, seed=[seed, 2])
        rates *= _renormalised(by_second, np.arange(seconds) // 60)
    return Arrivals(start_s, rates)


def peak_rate(trace: Trace) -> float:
    """The 99.9 % quantile over the whole trace's own bins."""
    return float(np.quantile(trace.rates, PEAK_QUANTILE))


def scale_to(trace: Trace, capacity_per_s: float) -> float:
    """What to multiply the trace with so that its peak is `capacity_per_s`."""
    peak = peak_rate(trace)
    if peak <= 0:
        raise TraceInvalid(
            trace.name,
            "99.9 % of it is zero, so it cannot be scaled to `peak_workers`; "
            "leave that out to use rates as they are",
        )
    return capacity_per_s / peak


def _noise(many: int, *, cv: float, memory: float, seed: list[int]) -> Floats:
    """Lognormal AR(1) with mean 1 and this coefficient of variation."""
    sigma = float(np.sqrt(np.log1p(cv**2)))
    shocks = np.random.default_rng(seed).standard_normal(many)
    shocks[1:] *= np.sqrt(1 - memory**2)
    level, noise = 0.0, np.empty(many)
    for place, shock in enumerate(shocks):
        level = memory * level + shock
        noise[place] = level
    lognormal: Floats = np.exp(sigma * noise - sigma**2 / 2)
    return lognormal


def _renormalised(noise: Floats, bin_of: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Floats:
    """The noise second by second, divided by its mean in each bin: every bin keeps its volume."""
    means = np.bincount(bin_of, weights=noise) / np.maximum(np.bincount(bin_of), 1)
    return noise / means[bin_of]
