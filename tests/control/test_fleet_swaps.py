"""Jobs that can only change GPU types with each other in a full fleet: one gives way, nobody breaks a promise."""

from __future__ import annotations

from dataclasses import replace

from estimator.fleet import Standing
from services.control.safety import SafetyLimits
from services.control.types import Reason, WorkerPhase
from tests.control.typed_fleets import TICK_S, Fleet

BOTH = ("a100", "t4")


async def swapping(ads: Standing, feed: Standing, **rates: float) -> Fleet:
    """`ads` has all t4, `feed` all a100, and each of them should have what the other has."""
    fleet = Fleet({"a100": 4, "t4": 4}, rates={"a100": 100.0, "t4": 50.0, **rates})
    await fleet.job(replace(ads, workers_max=16), "t4", 4, types=BOTH)
    await fleet.job(replace(feed, workers_max=16), "a100", 4, types=BOTH)
    await fleet.ticks(4)
    fleet.meters["ads"].rate = fleet.meters["feed"].rate = 390.0
    return fleet


async def test_two_swap_types_in_a_full_fleet() -> None:
    fleet = await swapping(Standing("ads", weight=9.0), Standing("feed"))

    for tick in range(40):
        await fleet.ticks(1)
        print(tick, await fleet.asked("ads"), await fleet.asked("feed"))

    assert await fleet.asked("ads") == {"a100": 4}
    assert await fleet.asked("feed") == {"t4": 4}
