"""Kubernetes' HPA on every job of a fleet, each on its own, every 15 s; all jobs at once, for speed.

The same numbers as `estimator.rules.hpa` and `horizontal` (a test holds them against each other). In a
fleet's world the ready workers of a job share its stream evenly, so each worker's average is the job's.
"""

from __future__ import annotations

import numpy as np

from estimator.rules.horizontal import DOWN_WINDOW_S, PERIOD_S, TOLERANCE, UP_PODS
from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.kernel import Counts
from services.simulator.fleet.seen import FleetSeen
from services.simulator.trace import Floats

PERIOD = round(PERIOD_S)
METRIC_ROWS = round(60 / PERIOD_S)
"""Readings within the metric's window of a minute."""
KEPT_ROWS = round(DOWN_WINDOW_S / PERIOD_S)
"""Recommendations within the window for shrinking, besides the present one."""


class HpaJobs:
    """What each job's autoscaler asks for. `most` are the largest sizes that it may set."""

    def __init__(self, fleet: FleetFile, most: Counts | None = None, *, target: float = 0.8) -> None:
        self._target = target
        allowed = np.array([job.workers_max for job in fleet.jobs], dtype=np.int64)
        self.most = np.maximum(allowed if most is None else np.minimum(allowed, most), 1)
        self._busy: list[Floats] = []
        self._recommended: list[Counts] = []

    def wanted(self, seen: FleetSeen) -> Counts:
        """Workers by job. A worker that waits for a GPU is unready, as a pending pod is."""
        ready, current = seen.ready.sum(axis=1), seen.requested.sum(axis=1)
        self._busy = [*self._busy, np.where(ready > 0, seen.busy, np.nan)][-METRIC_ROWS:]
        rows = np.array(self._busy)
        known = ~np.isnan(rows)
        usage = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        usage = np.where(ready > 0, usage, np.nan)
        desired = desired_by_usage(usage, ready, np.maximum(current - ready, 0), current, self._target)
        highest = np.max([*self._recommended, desired], axis=0)
        self._recommended = [*self._recommended, desired][-KEPT_ROWS:]
        stable = np.minimum(np.maximum(current, desired), highest)
        # Changes are 15 s apart, so the rate limits count from the present size: 4 pods or 100 % up.
        stable = np.minimum(stable, np.maximum(current + UP_PODS, 2 * current))
        outside = (current > self.most) | (current < 1)
        wanted: Counts = np.where(outside, np.clip(current, 1, self.most), np.clip(stable, 1, self.most))
        return wanted


def desired_by_usage(usage: Floats, ready: Counts, unready: Counts, current: Counts, target: float) -> Counts:
    """HPA's number for a Pods metric, for many jobs; the present size where no ready worker has one.

    One that is not ready counts as idle when growing; what that turns round, or would, changes nothing.

    >>> one = np.array([1])
    >>> desired_by_usage(np.array([0.9]), 2 * one, 0 * one, 2 * one, 0.6).tolist()
    [3]
    >>> desired_by_usage(np.array([0.9]), 2 * one, one, 3 * one, 0.6).tolist()  # the third is on its way
    [3]
    """
    ratio = np.nan_to_num(usage, nan=0.0) / target
    plain = np.where(_in_tolerance(ratio), current, np.ceil(ratio * ready - 1e-9))
    count = ready + unready
    again = np.nan_to_num(usage, nan=0.0) * ready / np.maximum(count, 1) / target
    grown = np.ceil(again * count - 1e-9)
    held = _in_tolerance(again) | (again < 1) | (grown < current)
    desired = np.where((unready > 0) & (ratio > 1), np.where(held, current, grown), plain)
    return np.where((ready > 0) & ~np.isnan(usage), desired, current).astype(np.int64)


def _in_tolerance(ratio: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(np.abs(1.0 - ratio) <= TOLERANCE + 1e-12)
