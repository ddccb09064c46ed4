"""`oracle`: the clairvoyant optimum at a given lateness, and what it proves.

For each price of lateness the plan that minimises GPU time + price · late samples is found
(oracle_plan.py). Its value L(price) bounds every policy from below: at late share x of N
samples no policy can use less than max over prices of L(price) - price·x·N GPU-seconds. The
plan, replayed second by second in the world, shows how close to that bound one can get.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.simulator import layout as at
from services.simulator.arrivals import Arrivals
from services.simulator.families import fewest_workers, true_curve
from services.simulator.oracle_plan import STEP_S, follow, plan_backward
from services.simulator.plant import Handover, Plant
from services.simulator.trace import Floats
from services.simulator.world import World

CELLS = 200
REACH = 2.5
"""Backlogs up to this many SLOs' worth of traffic are told apart."""
NEARBY_MIN = 30
ROUNDING_S = 1.0
PRICES = (1.1, 1.5, 3.0, 10.0, 50.0, 2000.0)
"""Prices of a late sample tried, in GPU time of training it."""


@dataclass(frozen=True, slots=True)
class OraclePoint:
    """What one price of lateness gives."""

    price: float
    """GPU-seconds a late sample."""
    bound_gpu_s: float
    """L(price)."""
    late_share: float
    """Of the plan, replayed."""
    gpu_hours: float
    """Of the plan, replayed, start-ups charged."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """The limit of one trace and plant."""

    points: tuple[OraclePoint, ...]
    samples: float
    work_gpu_s: float = 0.0
    """Every sample has to be trained, however late: GPU time for all of them at the best price there is."""
    gpus_per_worker: float = 1.0

    def bound_gpu_hours(self, late_share: float) -> float:
        """No policy with this late share can use fewer GPU-hours."""
        late = late_share * self.samples
        bounds = [point.bound_gpu_s - point.price * late for point in self.points]
        return max([self.work_gpu_s, *bounds]) * self.gpus_per_worker / 3600

    @property
    def punctual(self) -> OraclePoint:
        """The replayed plan that is least late."""
        return min(self.points, key=lambda point: (point.late_share, point.gpu_hours))


def prices_of(plant: Plant) -> tuple[float, ...]:
    """The prices to try, in GPU-seconds a late sample."""
    return tuple(price * _cheapest(plant) for price in PRICES)


def oracle_of(plant: Plant, arrivals: Arrivals, points: Iterable[OraclePoint]) -> Oracle:
    """The limit, from what each price gave."""
    samples = float(arrivals.per_second.sum())
    held = float(plant.workers_min * len(arrivals.per_second))
    ordered = tuple(sorted(points, key=lambda point: point.price))
    return Oracle(ordered, samples, max(samples * _cheapest(plant), held), plant.gpus_per_worker)


def _cheapest(plant: Plant) -> float:
    """The least GPU time in which a sample can be trained, at whatever size."""
    curve = true_curve(plant, plant.most_workers)
    sizes = np.arange(1, len(curve))
    return float((sizes / np.maximum(curve[1:], 1e-9)).min())


def oracle_point(plant: Plant, arrivals: Arrivals, price: float, *, cells: int = CELLS) -> OraclePoint:
    """Bound, plan and replay at one price.

    The bound is lenient by the second to which the world rounds delays; the plan is as much stricter.
    """
    value, _ = _solve(plant, arrivals, price, slo_s=plant.slo_s + ROUNDING_S, cells=cells)
    _, sizes = _solve(plant, arrivals, price, slo_s=max(plant.slo_s - ROUNDING_S, 1.0), cells=cells)
    late_share, gpu_hours = replay(plant, arrivals, sizes)
    return OraclePoint(price, value, late_share, gpu_hours)


def _solve(
    plant: Plant, arrivals: Arrivals, price: float, *, slo_s: float, cells: int
) -> tuple[float, NDArray[np.int64]]:
    """(value, sizes by minute) of the plan that minimises GPU time + price · late samples."""
    arriving, fresh, cell = _grid(plant, arrivals, slo_s, cells)
    curve = true_curve(plant, plant.most_workers)
    pause_s = plant.pause_s if plant.shuffle.stops_all else 0.0
    actions = np.zeros((len(arriving), cells, len(curve)), dtype=np.int16)
    value = plan_backward(
        arriving,
        fresh,
        slo_s % STEP_S,
        cell,
        curve,
        plant.workers_min,
        _highest(plant, arrivals, curve),
        plant.startup_typical_s,
        pause_s,
        price,
        actions,
    )
    first = plant.workers_min + int(np.argmin(value[0, plant.workers_min :]))
    return float(value[0].min()), follow(actions, arriving, cell, curve, pause_s, first)


def replay(plant: Plant, arrivals: Arrivals, sizes: NDArray[np.int64]) -> tuple[float, float]:
    """(late share, GPU-hours) of a plan of sizes by minute, second by second in the world.

    One aggregate FIFO; every worker is asked for early enough to be ready in its minute, and
    that start-up is charged.
    """
    stops = plant.shuffle.stops_all and plant.pause_s > 0
    aggregate = plant.model_copy(
        update={
            "shuffle": Handover.RESTART if stops else Handover.LEASES,
            "pause_s": plant.pause_s if stops else 0.0,
            "startup_s": 0.0,
            "drain_s": 0.0,
            "crashes_per_worker_day": 0.0,
            "straggler_share": 0.0,
        }
    )
    world = World(aggregate, arrivals, seed=0)
    world.populate(int(sizes[0]))
    for minute in np.flatnonzero(np.diff(sizes)) + 1:
        world.advance(int(minute) * 60)
        world.ask(int(sizes[minute]))
    world.advance(world.end_s)
    world.drain()
    total = world.minutes.sum(axis=0)
    started = float(np.maximum(np.diff(sizes), 0).sum()) * plant.startup_typical_s
    late_share = float(total[at.M_LATE] / total[at.M_TRAINED]) if total[at.M_TRAINED] > 0 else 0.0
    return late_share, float(total[at.M_HELD] + started) * plant.gpus_per_worker / 3600


def _highest(plant: Plant, arrivals: Arrivals, curve: Floats) -> NDArray[np.int64]:
    """The largest size worth trying in each step: twice what the busiest minute nearby needs, and two."""
    needed = fewest_workers(curve, arrivals.minutes, at_least=plant.workers_min)
    padded = np.pad(needed, NEARBY_MIN, mode="edge")
    nearby = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEARBY_MIN + 1).max(axis=1)
    best: NDArray[np.int64] = np.minimum(2 * nearby + 2, len(curve) - 1)
    return best


def _grid(plant: Plant, arrivals: Arrivals, slo_s: float, cells: int) -> tuple[Floats, Floats, Floats]:
    """Arrivals by step; arrivals of the SLO before its start, kink and end; width of a backlog cell.

    The width follows the traffic nearby: a grid made for the peak would be blind at night.
    """
    arriving = arrivals.minutes * STEP_S
    edges = np.arange(len(arriving) + 1) * STEP_S
    # Nothing is known before the first step: take it that traffic was the same.
    so_far = np.concatenate([[0.0], np.cumsum(arriving)])
    early_s = -np.ceil(slo_s / STEP_S) * STEP_S
    times = np.concatenate([[early_s], edges])
    counts = np.concatenate([[early_s / STEP_S * arriving[0]], so_far])
    moments = edges[:-1, None] + np.array([0.0, slo_s % STEP_S, STEP_S])
    fresh: Floats = np.interp(moments, times, counts) - np.interp(moments - slo_s, times, counts)
    usual = np.maximum(np.append(fresh.max(axis=1), fresh[-1, 2]), plant.rate_per_worker)
    padded = np.pad(usual, NEARBY_MIN, mode="edge")
    nearby = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEARBY_MIN + 1).max(axis=1)
    return arriving, fresh, REACH * nearby / (cells - 1)
