"""What whole partitions do to a pool: the fullest worker decides, and some sizes are worth nothing more."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from estimator.capacity import Dealt, LearnedCapacity
from estimator.throughput import ThroughputModel

MODEL = ThroughputModel.guessed(100.0, contention=0.0)


def dealt(partitions: int, *, heaviest: float = 0.0, workers_max: int = 64) -> LearnedCapacity:
    return LearnedCapacity.of(
        MODEL, slo_broken=False, workers_max=workers_max, dealt=Dealt(partitions, heaviest)
    )


@given(partitions=st.integers(1, 300), workers=st.integers(1, 400))
def test_the_fullest_worker_decides_what_a_size_is_worth(partitions: int, workers: int) -> None:
    held = [0] * workers
    for partition in range(partitions):
        held[partition % workers] += 1

    assert math.isclose(Dealt(partitions).worth(workers), partitions / max(held))


@given(partitions=st.integers(1, 128), rate=st.floats(1.0, 10_000.0))
def test_the_size_for_a_rate_is_the_smallest_that_carries_it(partitions: int, rate: float) -> None:
    capacity = dealt(partitions)
    carrying = [n for n in range(65) if capacity.samples_per_s(n) >= rate * (1 - 1e-9)]

    wanted = capacity.workers_for(rate, workers_max=64)

    if carrying:
        assert wanted == carrying[0]
    else:
        assert wanted > 64 or capacity.samples_per_s(wanted) == max(map(capacity.samples_per_s, range(65)))


def test_a_partition_too_heavy_for_one_worker_bounds_every_size() -> None:
    capacity = dealt(64, heaviest=0.25)

    assert math.isclose(capacity.samples_per_s(64), 400.0, rel_tol=1e-6)
    assert capacity.workers_for(500.0, workers_max=64) == 4, "more workers would idle"
