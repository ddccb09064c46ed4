"""The limit: no plan beats it, on instances small enough to try every plan; and no policy does."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from services.simulator.contest import Contest, judge
from services.simulator.oracle import oracle_of, oracle_point, prices_of, replay
from services.simulator.plant import Plant
from services.simulator.policies import choose
from tests.simulator.making import a_day, a_plant, a_trace, arriving

PRICES = (0.002, 0.01, 0.05, 0.5, 10.0)


def every_plan(plant: Plant, *rates: float) -> list[tuple[float, float]]:
    """(late samples, GPU-seconds) of every plan of sizes 1 to 3 by minute."""
    arrivals = arriving(*rates)
    total = float(arrivals.per_second.sum())
    outcomes = []
    for sizes in product(range(1, plant.most_workers + 1), repeat=len(rates)):
        late_share, gpu_hours = replay(plant, arrivals, np.array(sizes))
        outcomes.append((late_share * total, gpu_hours * 3600))
    return outcomes


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("shuffle", "pause_s"), [("leases", 0.0), ("restart", 20.0)])
def test_no_plan_beats_the_bound_and_the_oracle_s_own_comes_close(
    seed: int, shuffle: str, pause_s: float
) -> None:
    # Quiet minutes at the end: what is left over there is charged differently by plan and world.
    rates = [*np.random.default_rng(seed).uniform(20, 290, 3), 0.0, 0.0]
    plant = a_plant(workers_max=3, slo_s=30.0, shuffle=shuffle, pause_s=pause_s, startup_s=90.0)
    outcomes = every_plan(plant, *rates)

    points = [oracle_point(plant, arriving(*rates), price, cells=400) for price in PRICES]

    total = float(arriving(*rates).per_second.sum())
    for point in points:
        price = point.price
        best = min(gpu_s + price * late for late, gpu_s in outcomes)
        own = point.gpu_hours * 3600 + price * point.late_share * total
        assert point.bound_gpu_s <= best * (1 + 1e-9), f"{seed=} {price=}"
        assert point.bound_gpu_s >= 0.9 * best, f"{seed=} {price=}: the bound is too weak to say anything"
        assert own <= 1.15 * best, f"{seed=} {price=}"


def test_more_lateness_never_needs_more_gpu_hours() -> None:
    plant = a_plant(workers_max=12, slo_s=30.0)
    arrivals = arriving(*a_day(minutes=120))
    oracle = oracle_of(plant, arrivals, (oracle_point(plant, arrivals, price) for price in prices_of(plant)))

    bounds = [oracle.bound_gpu_hours(late) for late in (0.0, 0.001, 0.01, 0.1, 0.5)]

    assert bounds == sorted(bounds, reverse=True)
    assert oracle.punctual.late_share < 0.001


@pytest.mark.parametrize("shuffle", ["leases", "restart"])
def test_no_policy_is_below_the_oracle_at_equal_lateness(shuffle: str) -> None:
    plant = a_plant(
        workers_max=24, shuffle=shuffle, pause_s=0.0 if shuffle == "leases" else 20.0, warmup_days=0.25
    )
    choices = [choose(name) for name in ("reactive", "hpa", "keda", "flink", "static-mean", "static-max")]

    verdict = judge(Contest(a_trace(a_day(minutes=540)), plant), choices)

    for judged in verdict.judged:
        assert judged.over_oracle is not None
        assert judged.over_oracle >= 1.0, judged.choice.label
