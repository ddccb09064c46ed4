"""What the throughput model costs: CPU time of a tick, of a fit, of a question."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from benchmarks.throughput_worlds import Telemetry, World, curve_worlds, told
from estimator.throughput import ThroughputModel
from estimator.throughput.fitted import refit
from estimator.throughput.knowledge import Knowledge
from estimator.throughput.scalability import Floats, LawPrior, SpeedPoint

REPEATS = 200


def costs() -> dict[str, float]:
    """Microseconds of CPU time, medians; the full table of rows, as after a day."""
    world = next(iter(curve_worlds()))
    model = _experienced(world)
    known = model.knowledge
    windows = [told(world.window(17, 0.8, 9), Telemetry.FULL, at_s=2000.0 + 10.0 * i) for i in range(REPEATS)]
    model = model.seen(windows[0])
    ticks = []
    for window in windows[1:]:
        began = time.process_time()
        model = model.seen(window)
        ticks.append(1e6 * (time.process_time() - began))
    points = [row.as_point(0.02) for row in known.rows]
    return {
        "cost/rows": float(len(known.rows)),
        "cost/tick p50 us": round(float(np.median(ticks))),
        "cost/tick worst us": round(max(ticks)),
        "cost/refit us": _median_us(lambda: _again(known)),
        "cost/the same laws by scipy us": _median_us(lambda: _by_scipy(points, known.prior), repeats=20),
        "cost/C(n) us": _median_us(lambda: model.samples_per_s(12)),
        "cost/workers_for us": _median_us(lambda: model.workers_for(1e9, workers_max=64)),
        "cost/state as JSON bytes": float(len(json.dumps(asdict(model.knowledge), default=str))),
    }


def _experienced(world: World) -> ThroughputModel:
    model = ThroughputModel.guessed(1.3 * world.capacity(1))
    for place in range(60):
        window = world.window(1 + place % 16, (0.3, 0.6, 0.9)[place % 3], place)
        for repeat in (0, 1):
            model = model.seen(told(window, Telemetry.FULL, at_s=20.0 * place + 10.0 * repeat + 10.0))
    return model


def _again(known: Knowledge) -> None:
    refit(known.rows, known.steps, known.resources, known.prior, noise_sd=0.02, start=known.fitted.laws)


def _by_scipy(points: list[SpeedPoint], prior: LawPrior) -> None:
    """Both laws with scipy's least squares, from the same start and with the same loss."""
    from scipy.optimize import least_squares  # noqa: PLC0415

    table = np.array([(p.workers, p.busy, p.log_speed, p.sd) for p in points])
    spreads = np.sqrt(prior.precisions)
    for crowd in (table[:, 1], table[:, 0]):
        m = np.maximum(crowd, 1.0)

        def residuals(theta: Floats, m: Floats = m) -> Floats:
            crowding = math.exp(theta[1]) * (m - 1) + math.exp(theta[2]) * m * (m - 1)
            off = (table[:, 2] - theta[0] + np.log1p(crowding)) / table[:, 3]
            return np.concatenate([off, spreads * (theta - prior.means)])

        least_squares(residuals, [table[:, 2].max(), *prior.means[1:]], loss="soft_l1")


def _median_us(work: Callable[[], object], *, repeats: int = REPEATS) -> float:
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        taken.append(1e6 * (time.process_time() - began))
    return round(float(np.median(taken)), 1)
