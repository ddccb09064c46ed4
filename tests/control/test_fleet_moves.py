"""Jobs with a pool for each GPU type: the fleet moves them, and what they leave is free once they left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from estimator.fleet import Configuration, FleetPlan, JobId, Standing, share
from services.actuator.memory_pool import MemoryPool
from services.control.fleet_share import FleetShare
from services.control.safety import SafetyLimits
from services.control.types import Reason, WorkerPhase
from tests.control.typed_fleets import TICK_S, Fleet


async def crowded(**standings: Standing) -> Fleet:
    """`ads` and `feed` on four a100 which both could use whole; six t4 that are free."""
    fleet = Fleet({"a100": 4, "t4": 6})
    await fleet.job(standings.get("ads", Standing("ads")), "a100", 2, types=("a100", "t4"))
    await fleet.job(standings.get("feed", Standing("feed", gpu_types=("a100",))), "a100", 2, types=("a100",))
    await fleet.ticks(4)
    fleet.meters["ads"].rate = fleet.meters["feed"].rate = 390.0
    return fleet


async def test_a_job_moves_to_a_type_that_has_room_so_that_both_are_served() -> None:
    fleet = await crowded()

    ticks = await fleet.ticks(12)

    assert await fleet.asked("ads") == {"t4": 4}
    assert await fleet.asked("feed") == {"a100": 4}
    begun = [tick.decision for tick in ticks if tick.decision and tick.decision.reason is Reason.FLEET_MOVE]
    assert [one.job for one in begun] == ["ads"]
    assert begun[0].actuation is not None
    assert begun[0].actuation.gpu_type == "t4"
    assert fleet.share.held()[JobId("", "ads")] == Configuration("t4", 4)


async def test_those_on_the_old_type_train_until_the_new_ones_do() -> None:
    fleet = await crowded()

    for _ in range(12):
        await fleet.ticks(1)
        state = await fleet.state("ads")
        assert sum(worker.phase is WorkerPhase.READY for worker in state.workers) >= 2


async def test_a_controller_that_takes_over_in_the_middle_finishes_the_move() -> None:
    fleet = await crowded()
    await fleet.ticks(2)
    assert (await fleet.asked("ads")).keys() == {"a100", "t4"}

    fleet.share = FleetShare(fleet.share.terms, interval_s=TICK_S)
    fleet.loops = {
        name: fleet.loop(loop.policy.standing) for name, loop in fleet.loops.items() if loop.policy.standing
    }
    await fleet.ticks(12)

    assert await fleet.asked("ads") == {"t4": 4}
    assert await fleet.asked("feed") == {"a100": 4}


async def test_a_move_in_which_nobody_comes_is_taken_back_and_not_tried_again_at_once() -> None:
    fleet = await crowded()
    fleet.pools["ads"]["t4"] = MemoryPool(fleet.clock, startup_s=1e9, names="never")
    fleet.loops["ads"] = fleet.loop(Standing("ads"))

    await fleet.ticks(40)

    assert await fleet.asked("ads") == {"a100": 2}
    assert await fleet.asked("feed") == {"a100": 2}
    assert (await fleet.state("ads")).ready == 2


async def test_a_type_whose_rate_nobody_knows_is_not_moved_to() -> None:
    fleet = await crowded()
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, lone_rates={"a100": 100.0})

    await fleet.ticks(12)

    assert await fleet.asked("ads") == {"a100": 2}


async def test_safety_limits_hold_a_move_too() -> None:
    fleet = await crowded()
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, safety=SafetyLimits(step_up_max=1))

    await fleet.ticks(12)

    assert (await fleet.asked("ads")).keys() == {"a100"}


async def test_a_paused_job_is_not_moved() -> None:
    fleet = await crowded()
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, paused=True)

    await fleet.ticks(12)

    assert await fleet.asked("ads") == {"a100": 2}


async def test_a_job_goes_home_when_there_is_room_and_it_is_cheaper_there() -> None:
    fleet = Fleet({"a100": 8, "t4": 8}, a100=1.0, t4=2.0)
    await fleet.job(Standing("ads", gpu_types=("a100", "t4")), "t4", 2, types=("a100", "t4"))
    fleet.meters["ads"].rate = 190.0

    await fleet.ticks(12)

    assert await fleet.asked("ads") == {"a100": 2}


async def test_a_guarantee_is_kept_free_at_home_unless_what_the_job_has_elsewhere_is_worth_it() -> None:
    fleet = Fleet({"a100": 6, "t4": 6}, rates={"a100": 100.0, "t4": 80.0})
    ads = Standing("ads", gpu_types=("a100", "t4"), guaranteed=3)
    await fleet.job(ads, "t4", 2, types=("a100", "t4"))
    await fleet.job(Standing("feed", gpu_types=("a100",)), "a100", 1, types=("a100",))
    fleet.meters["ads"].rate, fleet.meters["feed"].rate = 70.0, 590.0

    await fleet.ticks(8)

    assert await fleet.asked("feed") == {"a100": 3}

    fleet.meters["ads"].rate = 470.0
    await fleet.ticks(8)

    assert (await fleet.asked("ads"), await fleet.asked("feed")) == ({"t4": 6}, {"a100": 6})


async def test_a_job_that_is_late_already_wishes_for_what_drains_its_backlog_in_time() -> None:
    fleet = Fleet({"a100": 8})
    for name in ("ads", "feed"):
        await fleet.job(Standing(name, gpu_types=("a100",)), "a100", 2, types=("a100",))
    fleet.meters["ads"].rate, fleet.meters["feed"].rate = 190.0, 590.0
    fleet.meters["ads"].lag = 45_000

    await fleet.ticks(12)

    # 45,000 samples in a quarter of an hour are 50/s: three workers, not the ten that would drain at once.
    assert await fleet.asked("ads") == {"a100": 3}
    assert await fleet.asked("feed") == {"a100": 5}


async def test_looking_at_the_fleet_does_not_run_the_programme_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = await crowded()
    await fleet.ticks(1)
    shared: list[FleetPlan] = []

    def counting(*arguments: Any, **options: Any) -> FleetPlan:
        shared.append(share(*arguments, **options))
        return shared[-1]

    monkeypatch.setattr("services.control.fleet_share.share", counting)
    seen = [fleet.share.plan() for _ in range(3)]

    assert shared == []
    assert seen[0].contended
