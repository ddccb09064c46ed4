"""True throughput curves: what n workers can really train. No policy ever sees these.

They differ in kind from what the estimator fits, so that a policy cannot win by
having been handed the world's own formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from services.simulator.plant import Plant
from services.simulator.trace import Floats


def contention(plant: Plant, n: Floats) -> Floats:
    """C(n) = r·n / (1 + c·(n-1)): a share c of each step is serialised at the parameter server."""
    return plant.rate_per_worker * n / (1 + plant.contention * (n - 1))


def retrograde(plant: Plant, n: Floats) -> Floats:
    """C(n) = r·n / (1 + c·(n-1) + k·n·(n-1)): beyond the knee every worker more costs throughput."""
    return plant.rate_per_worker * n / (1 + plant.contention * (n - 1) + plant.coherency * n * (n - 1))


def hot_shard(plant: Plant, n: Floats) -> Floats:
    """C(n) = r·(n^-4 + h^-4)^(-1/4): linear until one shard takes all it can, then flat at h workers."""
    h = float(plant.ceiling_workers)
    safe = np.maximum(n, 1e-9)
    return np.asarray(plant.rate_per_worker * (safe**-4.0 + h**-4.0) ** -0.25)


def input_cpu(plant: Plant, n: Floats) -> Floats:
    """Hosts fill one after another; a host's CPUs can feed only `host_feeds_workers` of its workers.

    A staircase: the last workers on each host add nothing. Contention acts on what is fed.
    """
    per_host = plant.workers_per_host
    hosts = np.floor(n / per_host)
    fed = hosts * plant.host_feeds_workers + np.minimum(n - hosts * per_host, plant.host_feeds_workers)
    fed = np.maximum(fed, 0.0)
    return np.where(
        fed > 0, plant.rate_per_worker * fed / (1 + plant.contention * np.maximum(fed - 1, 0)), 0.0
    )


def queueing(plant: Plant, n: Floats) -> Floats:
    """Closed queue, n customers, one exponential server: exact mean value analysis.

    Of a lone worker's step time 1/r, the share c is spent in service at the parameter server.
    """
    service = plant.contention / plant.rate_per_worker
    think = (1 - plant.contention) / plant.rate_per_worker
    top = int(np.ceil(n.max()))
    rate, waiting = np.zeros(top + 1), 0.0
    for customers in range(1, top + 1):
        response = service * (1 + waiting)
        rate[customers] = customers / (think + response)
        waiting = rate[customers] * response
    return np.interp(n, np.arange(top + 1), rate)


FAMILIES: Mapping[str, Callable[[Plant, Floats], Floats]] = {
    "contention": contention,
    "retrograde": retrograde,
    "hot-shard": hot_shard,
    "input-cpu": input_cpu,
    "queueing": queueing,
}


def true_curve(plant: Plant, workers: int) -> Floats:
    """C(0), C(1), ..., C(workers) of the plant's family; C(0) is 0."""
    curve = np.zeros(workers + 1)
    curve[1:] = FAMILIES[plant.family](plant, np.arange(1.0, workers + 1))
    return curve


def fewest_workers(
    curve: Floats, rates: Floats | float, *, at_least: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The fewest workers whose C(n) carries each rate; where none does, the n that trains most.

    >>> fewest_workers(np.array([0.0, 10.0, 18.0, 15.0]), np.array([0.0, 10.0, 12.0, 99.0]), at_least=1)
    array([1, 1, 2, 2])
    """
    best = int(np.argmax(curve))
    rising = np.maximum.accumulate(curve[: best + 1])
    # The tiny slack keeps a demand of exactly C(n) at n in spite of rounding.
    wanted = np.searchsorted(rising, np.asarray(rates) * (1 - 1e-12), side="left")
    return np.clip(wanted, at_least, max(best, at_least)).astype(np.int64)
