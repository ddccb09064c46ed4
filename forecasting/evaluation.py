"""Rolling-origin evaluation: every model, and what the selector would have served.

Nothing after an origin is seen by the forecasts made there, and nothing after the
start of the test by training. A day before the test warms up the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forecasting.batch import batch_at
from forecasting.calendar import Calendar
from forecasting.cleaning import calm
from forecasting.features import targets_of
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS, Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.learned import FleetModel
from forecasting.residuals import Indices
from forecasting.selector import MEDIAN, UPPER, Selector
from forecasting.voices import light_models, said_by_learned, said_by_light

SERVED = "served"
LEADS_UNITS = (3, 10, 30, 60)
"""Lead times of real pools, in minutes of a day of 24 hours."""


@dataclass(frozen=True, slots=True, eq=False)
class Backtest:
    """What was said at every origin, and what came: arrays (origins, KINDS, leads[, LEVELS])."""

    grid: Grid
    origins: Indices
    """Bins seen at each origin of the test."""
    came: Rates
    said: Mapping[str, Rates]
    leaders: tuple[str, ...]
    """Who led the mix at each origin."""


@dataclass(frozen=True, slots=True)
class Result:
    """How good a model was over all leads, rates and peaks; losses are over the mean of what came."""

    model: str
    pinball: float
    mae: float
    coverage: float
    volume: float
    """Sum of the 0.95 quantiles over the sum of what came."""
    silent: float
    """Share of the origins at which it could say nothing."""


def backtest(
    grid: Grid,
    history: TrafficHistory,
    learned: Sequence[FleetModel],
    calendar: Calendar,
    *,
    test_from: int,
    stride: int,
    mixed: Sequence[str] | None = None,
    tell: Callable[[float], None] = lambda _share: None,
) -> Backtest:
    """Forecast at every `stride`-th bin from a season before `test_from` on; keep the test's part.

    `mixed` names the trained models that the selector may use; the others are only scored.
    """
    start = test_from - (min(grid.season, test_from // 2) // stride) * stride
    origins = np.arange(start, len(history.rates) - grid.reach + 1, stride)
    batch = batch_at(grid, history, origins)
    said = said_by_learned(learned, batch, calendar)
    light = [model.name for model in light_models(grid)]
    for name in light:
        said[name] = np.full((len(origins), KINDS, len(grid.leads), len(LEVELS)), np.nan)
    names = [name for name in said if mixed is None or name in mixed or name in light]
    selector = Selector(grid, names)
    served = np.empty((len(origins), KINDS, len(grid.leads), len(LEVELS)))
    leaders = []
    for i, whole in _pasts(grid, history, origins):
        past = calm(whole, grid)
        for name, quantiles in said_by_light(light_models(grid), past, grid).items():
            said[name][i] = quantiles
        selector.settle(past)
        served[i] = selector.mix(past.end_s, {name: said[name][i] for name in names})
        leaders.append(selector.leader)
        tell((i + 1) / len(origins))
    test = origins >= test_from
    kept = {SERVED: served[test], **{name: quantiles[test] for name, quantiles in said.items()}}
    led = tuple(leader for leader, kept_ in zip(leaders, test, strict=True) if kept_)
    return Backtest(grid, origins[test], targets_of(batch, history.rates)[test], kept, led)


def _pasts(grid: Grid, history: TrafficHistory, origins: Indices) -> Iterator[tuple[int, TrafficHistory]]:
    """What was known at each origin, no more of it than light models read."""
    reads = 4 * grid.season + 4 * grid.reach
    for i, origin in enumerate(origins):
        first = max(0, int(origin) - reads)
        yield (
            i,
            TrafficHistory(
                history.start_s + first * history.step_s, history.step_s, history.rates[first:origin]
            ),
        )


def pinball(came: Rates, said: Rates, tau: float) -> Rates:
    """The loss whose least expectation is the quantile: too low costs tau, too high 1 - tau.

    >>> pinball(np.array([10.0, 10.0]), np.array([8.0, 12.0]), 0.95)
    array([1.9, 0.1])
    """
    error = came - said
    return np.asarray(np.maximum(tau * error, (tau - 1) * error))


def scored_leads(grid: Grid) -> Indices:
    """Indices of the grid's leads that are nearest to those that are scored."""
    bins = (np.array(LEADS_UNITS) * grid.unit_s / grid.step_s + 1e-9).astype(np.int64)
    return np.array([int(np.argmin(np.abs(grid.leads - bin_))) for bin_ in bins])


def results_of(test: Backtest) -> list[Result]:
    """A row for what was served and for every model."""
    leads = scored_leads(test.grid)
    came = test.came[:, :, leads]
    level = np.maximum(np.nanmean(came, axis=0), 1e-300)
    rows = []
    for model, quantiles in test.said.items():
        median, upper = quantiles[:, :, leads, MEDIAN], quantiles[:, :, leads, UPPER]
        known = ~np.isnan(came) & ~np.isnan(upper)
        if not known.any():
            continue
        gap = np.where(known, 0.0, np.nan)
        rows.append(
            Result(
                model,
                pinball=float(np.nanmean(np.nanmean(pinball(came, upper, 0.95) + gap, axis=0) / level)),
                mae=float(np.nanmean(np.nanmean(np.abs(came - median) + gap, axis=0) / level)),
                coverage=float(np.mean((came <= upper)[known])),
                volume=float(np.mean(upper[known]) / max(float(np.mean(came[known])), 1e-300)),
                silent=float(1 - known.any(axis=(1, 2)).mean()),
            )
        )
    return rows
