"""`floor`: a yardstick that every trace has."""

from __future__ import annotations

from services.simulator.arrivals import Arrivals
from services.simulator.families import fewest_workers, true_curve
from services.simulator.plant import Plant


def floor_gpu_hours(plant: Plant, arrivals: Arrivals) -> float:
    """The fewest whole workers that keep up with every minute, with free starts and no pauses.

    Not a bound: a queue within the SLO may undercut it. `workers_min` counts, since no policy may
    go below; a minute beyond `workers_max` counts as that.
    """
    curve = true_curve(plant, plant.most_workers)
    workers = fewest_workers(curve, arrivals.minutes, at_least=plant.workers_min)
    return float(workers.sum()) * plant.gpus_per_worker / 60
