"""The planner's own forecast of the log rate: a regression, its past errors, and how wide they are now."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from estimator.planner.compiled import compiled
from estimator.planner.features import (
    LONGEST,
    WIDTH,
    Floats,
    Places,
    Shape,
    guarded,
    logarithms,
    recent_highs,
    rows,
    surprises,
)
from estimator.planner.rises import Rises
from estimator.planner.timing import Timing

ROWS_MIN = 240
"""Fewer rows teach nothing of means over LONGEST bins, nor of seasons; shorter means take as many fewer."""
SHORTEST = 8
"""Bins of the longest recent mean of the youngest model."""
ROWS_PER_LEAD = 5
"""Fewer rows than this for every bin ahead, up to ROWS_MIN, are one path of errors and not several."""
ROWS_MAX = 20_000
Known = NDArray[np.bool_]
QUIET = 0.02
"""Added to every rate, as a share of the mean: the logarithm of nothing is no level."""
RIDGE = 1e-3
USUAL = 0.98
"""Of the moves that a regression learns from this share counts in full, where most are next to nothing:
at night, say."""
FAST, SLOW = 12.0, 90.0
"""Bins over which recent surprises are averaged for the volatility."""
EDGES = (0.0, 0.3, 0.55, 0.75, 0.87, 0.93, 0.96, 0.98, 0.99, 0.995, 0.998, 1.0)
"""Strata of the errors, by how bad they were: the tail is what is late."""
EACH = 12
"""Paths from every stratum: of a few, it is chance how far up the tail seems to reach."""
NIGHTS = 0.25
"""Without any traffic a row counts for this share of one of mean traffic that errs as far."""
WORTH_MAX = 10.0
"""A row counts for at most so many."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Log rates of the bins to come, one typical path and how far past errors would carry it."""

    ahead: Floats
    volatility: float
    level: float
    rise: float
    """No future lies further above the typical path than this."""
    further: Floats
    """How the log rate went on after that, a season before."""

    def nudged(self, given: Floats, trust: float, narrowing: float) -> Outlook:
        """Moved towards a given forecast as far as that has deserved it, and as much surer."""
        ahead = (1 - trust) * self.ahead + trust * given
        return replace(self, ahead=ahead, volatility=narrowing * self.volatility)

    def widened(self, variance: float) -> Outlook:
        """The same, from a start that is not known better than this."""
        return replace(self, volatility=math.sqrt(self.volatility**2 + variance))


@dataclass(frozen=True, slots=True, eq=False)
class Recent:
    """The end of a history as the model sees it, ready for one more bin that is still filling."""

    levels: Floats
    """One place is left at the end."""
    calm: Floats
    high: float
    """The recent high at the bin that is still filling."""
    clock: Floats
    """How each bin stands out by the clock, as far ahead as is forecast."""
    fast: float
    slow: float

    @property
    def bins(self) -> int:
        return len(self.levels) - 1


@dataclass(frozen=True, slots=True, eq=False)
class TrafficModel:
    """Fitted to one history. `errors[s, h]` are past errors in units of their own volatility."""

    shape: Shape
    quiet: float
    range: Floats
    """Least and most of each feature: a line is not followed beyond what it was fitted to."""
    weights: Floats
    errors: Floats
    chances: Floats
    spread: Floats
    """Non-negative weights of (1, recent surprises, older ones, 1/rate) for the variance."""
    fall: float
    """A fall within the guard window beyond this is unusual."""
    guard: int
    far: int
    """Bins after those forecast that are looked at roughly."""
    step1: float
    """One-step error over the error at the lead time."""
    rises: Rises

    def recent(self, rates: Floats) -> Recent:
        """What the model needs of the traffic so far. Once a bin."""
        tail = rates[-(self.shape.looks_back + round(3 * SLOW)) :]
        levels = np.append(logarithms(tail, self.quiet), 0.0)
        highs = recent_highs(levels, self.guard)
        calm, high = guarded(levels, highs, self.fall), float(highs[-1])
        last = len(tail) - 1
        clock = self.shape.by_the_clock(calm, last + 1)
        origins = np.arange(max(self.shape.reach + 1, last - round(3 * SLOW) + 1), last + 1)
        if len(origins) == 0:
            return Recent(levels, calm, high, clock, 0.0, 0.0)
        first = np.ascontiguousarray(self.weights[:, 0])
        lengths, knots, longest = self.shape.lengths, self.shape.knots, self.shape.longest
        squares = surprises(calm, clock, origins, lengths, knots, longest, self.range, first) ** 2
        squares = np.where(_measured(tail)[origins], squares, np.nan)
        fast, slow = (float(fading(squares, memory)[-1]) for memory in (FAST, SLOW))
        return Recent(levels, calm, high, clock, fast, slow)

    def outlook(self, recent: Recent, live: float | None = None) -> Outlook:
        """From the last whole bin, or from one still filling whose rate seems to be `live`."""
        last = recent.bins - 1
        level = float(recent.levels[last])
        if live is not None:
            last += 1
            level = float(np.log(max(live, 0.0) + self.quiet))
            recent.calm[last] = max(level, recent.high - self.fall)
        at = np.array([last], dtype=np.int64)
        features = np.clip(
            rows(recent.calm, recent.clock, at, self.shape.lengths, self.shape.knots, self.shape.longest)[0],
            *self.range,
        )
        clock = recent.clock[last + 1 : last + 1 + self.shape.ahead]
        ahead = recent.calm[last] + features[:-1] @ self.weights[:-1] + clock * self.weights[-1]
        known = np.array([1.0, recent.fast, recent.slow, np.exp(-level)])
        volatility = float(np.sqrt(max(self.spread @ known, 1e-8)))
        rise = self.rises.above(float(recent.calm[last]))
        return Outlook(ahead, volatility, level, rise, self._further(recent.calm, last))

    def _further(self, calm: Floats, last: int) -> Floats:
        """Seen over WIDTH bins a season before; as far as that is past, and flat without a season."""
        if not self.shape.seasons:
            return np.zeros(self.far)
        first = last - self.shape.seasons[-1] + self.shape.ahead - WIDTH // 2
        sums = np.cumsum(calm[first : min(first + self.far + WIDTH, last + 1)])
        means = (sums[WIDTH:] - sums[:-WIDTH]) / WIDTH
        return np.append(means - means[0], np.zeros(self.far))[: self.far]


def fit(rates: Floats, *, timing: Timing, season: int) -> TrafficModel | None:
    """A model of this history; None when it is too short to learn from."""
    known = rates[~np.isnan(rates)]
    ahead, lead, guard = timing.ahead, timing.lead, timing.guard
    if len(known) < _rows_for(SHORTEST, ahead) or not known.mean() > 0:
        return None
    quiet = QUIET * float(known.mean())
    levels = logarithms(rates, quiet)
    measured = _measured(rates)
    shape = _shape(len(levels), ahead, season)
    while shape.seasons and len(_usable(shape, measured, lead)) < _rows_for(shape.longest, ahead):
        shape = replace(shape, seasons=shape.seasons[:-1])  # nearly all that has a week before it is a gap
    usable = _usable(shape, measured, lead)
    if len(usable) < _rows_for(shape.longest, ahead):
        return None
    highs = recent_highs(levels, guard)
    fall = float(np.quantile(np.where(np.isfinite(highs), highs - levels, 0.0), 0.99))
    calm = guarded(levels, highs, fall)
    stride = max(1, -(-len(usable) // ROWS_MAX))
    origins = usable[::-1][: len(usable) - 1 : stride][::-1]
    clock = shape.by_the_clock(calm, len(calm) - 1)
    features = rows(calm, clock, origins, shape.lengths, shape.knots, shape.longest)
    usual = np.quantile(features, (0.005, 0.995), axis=0)
    usual[:, -2:] = [[clock.min()], [clock.max()]]  # what stands out once a day is no outlier
    features = np.clip(features, *usual)
    targets = np.stack([levels[origins + h] for h in range(1, ahead + 1)], axis=1) - calm[origins, None]
    by_lead = np.stack([clock[origins + h] for h in range(1, ahead + 1)], axis=1)
    weights, errors = _learned(features, by_lead, targets, np.ones(len(origins)))
    _, sigma = _volatility(calm, clock, origins, shape, usual, weights, errors[:, lead - 1], measured)
    # How far rows err must be known before they can be weighed by it.
    weights, errors = _learned(features, by_lead, targets, _worth(calm[origins], sigma))
    spread, sigma = _volatility(calm, clock, origins, shape, usual, weights, errors[:, lead - 1], measured)
    chosen, chances = _stratified(errors / sigma[:, None], min(lead + timing.patience, ahead))
    step1 = float(np.sqrt(np.mean(np.minimum(errors[:, 0] ** 2, np.quantile(errors[:, 0] ** 2, 0.99)))))
    at_lead = float(np.sqrt(np.mean(sigma**2)))
    return TrafficModel(
        shape, quiet, usual, weights, chosen, chances, spread, fall, guard, timing.further, step1 / at_lead,
        Rises.seen(calm[origins], errors),
    )  # fmt: skip


def _measured(rates: Floats) -> Known:
    """Where there is news: a bin that was measured, after another. What fills a gap holds no surprise, and
    taken for traffic it would make the model surer than traffic ever is.
    """
    known: Known = ~np.isnan(rates)
    known[1:] &= known[:-1]
    return known


def _usable(shape: Shape, measured: Known, lead: int) -> Places:
    """Bins that a row can be made for."""
    first, last = shape.reach, max(len(measured) - shape.ahead, shape.reach)
    return first + np.flatnonzero(measured[first:last] & measured[first + lead : last + lead])


def _shape(bins: int, ahead: int, season: int) -> Shape:
    """Seasons of which enough was seen: twice its length and some rows, at least."""
    seasons = tuple(
        length for length in (season, 7 * season) if bins >= length + max(season, ROWS_MIN) + ahead + 128
    )
    longest = LONGEST
    while longest > SHORTEST and bins - ahead - 2 * longest < _rows_for(longest, ahead):
        longest //= 2
    return Shape(ahead, seasons, longest)


def _rows_for(longest: int, ahead: int) -> int:
    """Rows to learn from that means over so many bins take, and errors as far ahead.

    >>> _rows_for(8, 6), _rows_for(64, 6), _rows_for(8, 60)
    (30, 240, 240)
    """
    return max(ROWS_MIN * longest // LONGEST, min(ROWS_PER_LEAD * ahead, ROWS_MIN))


def _still_to_come(rows: int, weights: int) -> float:
    """Errors of forecasts to come over those of the rows that the weights were fitted to.

    >>> round(_still_to_come(30, 11), 2), round(_still_to_come(10_000, 21), 3)
    (1.47, 1.002)
    """
    return math.sqrt((rows + weights) / (rows - weights))


def _learned(features: Floats, by_lead: Floats, targets: Floats, worth: Floats) -> tuple[Floats, Floats]:
    """Weights, and by how much forecasts to come will err."""
    weights = _regressed(features[:, :-1], by_lead, targets, worth)
    errors = targets - features[:, :-1] @ weights[:-1] - by_lead * weights[-1]
    return weights, errors * _still_to_come(len(errors), features.shape[1])


def _worth(levels: Floats, sigma: Floats) -> Floats:
    """What each row counts for: an error costs workers in proportion to the rate, and a row that errs far
    whatever is fitted teaches little. So the counting noise of nights does not decide about noons; but where
    nothing comes there is still nothing to be foreseen.
    """
    rates = np.exp(levels)
    worth = (rates + NIGHTS * rates.mean()) / sigma
    return np.asarray(np.minimum(worth / worth.mean(), WORTH_MAX))


def _regressed(features: Floats, by_lead: Floats, targets: Floats, worth: Floats) -> Floats:
    """Ridge, each feature shrunk in its own scale; every lead has the features and one of its own."""
    # Rare catastrophes must not tilt the everyday forecast; they live on in the errors. What comes by the
    # clock is none, however high it is.
    expected = by_lead - features[:, -1:]
    moves = np.abs(targets - expected)
    limit = np.maximum(6 * np.median(moves, axis=0), np.quantile(moves, USUAL, axis=0)) + 1e-3
    root = np.sqrt(worth)[:, None]
    wanted = root * (expected + np.clip(targets - expected, -limit, limit))
    features, by_lead = root * features, root * by_lead
    gram, moments = features.T @ features, features.T @ wanted
    across, own = features.T @ by_lead, np.sum(by_lead**2, axis=0)
    own_moments = np.sum(by_lead * wanted, axis=0)
    count, leads = moments.shape
    weights = np.empty((count + 1, leads))
    for lead in range(leads):
        whole = np.block([[gram, across[:, lead, None]], [across[None, :, lead], own[lead]]])
        whole[np.diag_indices_from(whole)] *= 1 + RIDGE
        whole[np.diag_indices_from(whole)] += 1e-9 * len(features)
        weights[:, lead] = np.linalg.solve(whole, np.append(moments[:, lead], own_moments[lead]))
    return weights


@compiled
def fading(values: Floats, memory: float) -> Floats:
    """Exponentially weighted mean, started at the first value; a gap leaves it as it was, at first at 0."""
    keep = np.exp(-1 / memory)
    faded = np.empty(len(values))
    last = 0.0 if np.isnan(values[0]) else values[0]
    for place in range(len(values)):
        if not np.isnan(values[place]):
            last = keep * last + (1 - keep) * values[place]
        faded[place] = last
    return faded


def _volatility(  # noqa: PLR0917 - steps of one derivation
    calm: Floats,
    clock: Floats,
    origins: Places,
    shape: Shape,
    usual: Floats,
    weights: Floats,
    errors: Floats,
    measured: Known,
) -> tuple[Floats, Floats]:
    """Variance of the errors at the lead time from recent one-step surprises: GARCH by regression."""
    every = np.arange(origins[0], origins[-1] + 1)
    first = np.ascontiguousarray(weights[:, 0])
    squares = surprises(calm, clock, every, shape.lengths, shape.knots, shape.longest, usual, first) ** 2
    squares = np.where(measured[every], np.minimum(squares, np.quantile(squares, 0.999)), np.nan)
    at = origins - origins[0]
    seen = (np.ones(len(at)), fading(squares, FAST)[at], fading(squares, SLOW)[at], np.exp(-calm[origins]))
    scale = np.stack(seen, axis=1)
    target = np.minimum(errors**2, np.quantile(errors**2, 0.99))
    norm = np.maximum(scale.mean(axis=0), 1e-12)
    spread = nnls(scale / norm, target)[0] / norm
    spread[0] += 0.05 * float(target.mean()) + 1e-8
    return spread, np.sqrt(scale @ spread)


def _stratified(errors: Floats, window: int) -> tuple[Floats, Floats]:
    """A few past error paths from every stratum of badness, with the chance that each stands for."""
    badness = errors[:, :window].mean(axis=1)
    order = np.argsort(badness, kind="stable")
    chosen: list[Places] = []
    chances: list[float] = []
    for low, high in pairwise(EDGES):
        first, last = int(low * len(order)), int(high * len(order))
        many = min(EACH, last - first)
        if many > 0:
            at = first + ((np.arange(many) + 0.5) * (last - first) / many).astype(np.int64)
            chosen.append(order[at])
            chances += [(high - low) / many] * many
    weights = np.array(chances)
    return np.ascontiguousarray(errors[np.concatenate(chosen)]), weights / weights.sum()
