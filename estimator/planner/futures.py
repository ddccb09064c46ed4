"""Likely futures: paths of the arrival rate with the chance of each, on the rollout's steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from estimator.planner.features import Floats
from estimator.planner.timing import Timing
from estimator.planner.traffic_model import Outlook, TrafficModel
from forecasting.forecast import Forecast


@dataclass(frozen=True, slots=True, eq=False)
class Futures:
    """`rates[p, k]`: the rate of future p in step k of the rollout; `typical[k]` the one in the middle."""

    rates: Floats
    chances: Floats
    typical: Floats
    further: Floats
    """Rates of the bins after the steps, roughly."""

    def scaled(self, factor: float) -> Futures:
        """The same with so much more traffic."""
        return Futures(self.rates * factor, self.chances, self.typical * factor, self.further * factor)

    def quantile(self, level: float, step: int) -> float:
        """The rate that is not exceeded with chance `level` in a step.

        >>> two = np.array([[1.0], [3.0]])
        >>> Futures(two, np.array([0.9, 0.1]), two[0], two[0]).quantile(0.95, 0)
        3.0
        """
        column = self.rates[:, step]
        order = np.argsort(column, kind="stable")
        reached = np.searchsorted(np.cumsum(self.chances[order]), level - 1e-9)
        return float(column[order][min(int(reached), len(order) - 1)])


def futures_of(
    model: TrafficModel, outlook: Outlook, timing: Timing, *, elapsed_s: float, live: float | None
) -> Futures:
    """A log path with the model's own past errors around it.

    `live` is the rate of the bin that is filling since `elapsed_s`; None when nothing is known
    of it, and the path starts with it.
    """
    errors = np.minimum(outlook.volatility * model.errors, outlook.rise)
    paths = np.maximum(np.exp(outlook.ahead + errors) - model.quiet, 0.0)
    typical = np.maximum(np.exp(outlook.ahead) - model.quiet, 0.0)
    if live is not None:
        paths = np.concatenate([np.full((len(paths), 1), live), paths], axis=1)
        typical = np.concatenate([[live], typical])
    bins = _bins(timing, elapsed_s, len(typical))
    further = typical[-1] * np.exp(outlook.further)
    return Futures(np.ascontiguousarray(paths[:, bins]), model.chances, typical[bins], further)


def given_path(forecast: Forecast, timing: Timing, quiet: float, *, from_s: float, many: int) -> Floats:
    """Log of a given forecast's median for `many` bins from `from_s` on; past its end, its last."""
    at_s = from_s - forecast.issued_at_s + (np.arange(many) + 0.5) * timing.bin_s
    bins = np.clip((at_s // forecast.step_s).astype(np.int64), 0, forecast.paths.shape[1] - 1)
    logs: Floats = np.log(np.maximum(forecast.path(0.5)[bins], 0.0) + quiet)
    return logs


def _bins(timing: Timing, elapsed_s: float, many: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bin that each step of the rollout lies in; past the last one, the last."""
    at_s = elapsed_s + (np.arange(timing.steps) + 0.5) * timing.step_s
    return np.minimum((at_s // timing.bin_s).astype(np.int64), many - 1)
