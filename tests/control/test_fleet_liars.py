"""What somebody says that a worker trains is where a job begins; what is measured is what it is judged by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.capacity import Capacity
from estimator.fleet import Standing
from services.control.types import WorkerReport
from tests.control.fakes import FakeClock, FakePool
from tests.control.test_fleet_share import Fleet

TRUE_RATE = 100.0


class Measured:
    """Workers that tell how busy they are, and what they train while they are."""

    def __init__(self, clock: FakeClock, pool: FakePool, rate_per_s: float) -> None:
        self._clock = clock
        self._pool = pool
        self._rate_per_s = rate_per_s

    async def reports(self) -> tuple[WorkerReport, ...]:
        workers = max(self._pool.requested, 1)
        busy = min(1.0, self._rate_per_s / workers / TRUE_RATE)
        return tuple(
            WorkerReport(f"w-{number}", self._clock.at_s, 1000, busy, TRUE_RATE) for number in range(workers)
        )


@pytest.mark.parametrize("said", [10.0, 1000.0])
async def test_a_worker_that_is_said_to_train_a_tenth_or_ten_times_as_much_is_found_out(said: float) -> None:
    fleet = Fleet(10, Standing("liar"), Standing("honest"))
    fleet.wants(liar=250, honest=450)
    for name, rate in (("liar", 250.0), ("honest", 450.0)):
        ports = fleet.loops[name]._ports
        fleet.loops[name]._ports = replace(ports, telemetry=Measured(fleet.clock, fleet.pools[name], rate))
    policy = fleet.loops["liar"].policy
    fleet.loops["liar"].policy = replace(policy, capacity_prior=Capacity(said, contention=0.0))

    after = await fleet.ticks(12)

    assert 3 <= after["liar"] <= 4
    assert after["honest"] >= 5
