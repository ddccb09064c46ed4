"""Jobs that can only change GPU types with each other in a full fleet: one gives way, no promise breaks."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from estimator.fleet import JobId, Standing
from services.control.fleet_passages import side_of
from services.control.fleet_share import FleetShare
from services.control.safety import SafetyLimits
from services.control.types import WorkerPhase
from tests.control.typed_fleets import TICK_S, Fleet

BOTH = ("a100", "t4")
ADS = Standing("ads", weight=9.0)
RATES = {"a100": 100.0, "t4": 50.0}


async def swapping(ads: Standing, feed: Standing, *, a100: int = 4, t4: int = 4) -> Fleet:
    """`ads` has all t4 and `feed` all a100; `ads` weighs more, and each should have what the other has."""
    fleet = Fleet({"a100": a100, "t4": t4}, rates=RATES)
    await fleet.job(replace(ads, workers_max=16), "t4", t4, types=BOTH)
    await fleet.job(replace(feed, workers_max=16), "a100", a100, types=BOTH)
    await fleet.ticks(4)
    fleet.meters["ads"].rate = fleet.meters["feed"].rate = 390.0
    return fleet


async def trained(fleet: Fleet, job: str) -> float:
    """Samples/s of the workers that train now, on all types."""
    workers = (await fleet.state(job)).workers
    return sum(RATES[one.gpu_type] for one in workers if one.phase is WorkerPhase.READY)


async def where(fleet: Fleet) -> list[dict[str, int]]:
    return [await fleet.asked(job) for job in fleet.loops]


async def test_two_swap_types_in_a_full_fleet_and_both_train_half_of_what_they_did_at_the_least() -> None:
    fleet = await swapping(ADS, Standing("feed"))
    before = {job: await trained(fleet, job) for job in fleet.loops}

    for _ in range(16):
        await fleet.ticks(1)
        for job in fleet.loops:
            assert await trained(fleet, job) >= before[job] / 2

    assert await where(fleet) == [{"a100": 4}, {"t4": 4}]


async def test_nobody_gives_way_below_its_guarantee() -> None:
    feed = Standing("feed", gpu_types=BOTH, guaranteed=3)
    fleet = await swapping(replace(ADS, weight=50.0), feed, a100=5, t4=7)
    fleet.meters["ads"].rate = 590.0

    for _ in range(16):
        await fleet.ticks(1)
        assert await trained(fleet, "feed") >= 300.0

    assert await where(fleet) == [{"a100": 5}, {"t4": 7}]


@pytest.mark.parametrize(("guaranteed", "least"), [(0, 2), (2, 2), (3, 3)])
async def test_it_gives_way_to_half_of_what_it_trains_or_to_its_guarantee(
    guaranteed: int, least: int
) -> None:
    fleet = await swapping(ADS, Standing("feed", gpu_types=BOTH, guaranteed=guaranteed))
    await fleet.ticks(1)

    side = side_of(fleet.share._book.said("feed"), "a100", 4)

    assert side is not None
    assert side.least == least


async def test_a_guarantee_that_leaves_nothing_to_give_leaves_all_where_they_are() -> None:
    fleet = await swapping(ADS, Standing("feed", gpu_types=BOTH, guaranteed=4))

    await fleet.ticks(8)

    assert await where(fleet) == [{"t4": 4}, {"a100": 4}]


async def test_what_is_given_up_for_one_is_not_taken_by_another() -> None:
    fleet = Fleet({"a100": 6, "t4": 4}, rates=RATES)
    for standing, at, workers, types in (
        (Standing("late", workers_max=16), "a100", 1, ("a100",)),
        (Standing("ads", weight=9.0, workers_max=16), "t4", 4, BOTH),
        (Standing("feed", workers_max=16), "a100", 5, BOTH),
    ):
        await fleet.job(standing, at, workers, types=types)
        fleet.meters[standing.name].rate = 490.0 if standing.name == "feed" else 390.0

    while "a100" not in await fleet.asked("ads"):
        await fleet.ticks(1)
        assert (await fleet.asked("late"))["a100"] == 1
    await fleet.ticks(14)

    assert await where(fleet) == [{"a100": 2}, {"a100": 4}, {"t4": 4}]


@pytest.mark.parametrize("job", ["ads", "feed"])
@pytest.mark.parametrize(
    "limits",
    [
        SafetyLimits(resizes_per_hour=1),
        SafetyLimits(resizes_per_day=1),
        SafetyLimits(step_up_max=3),
        SafetyLimits(fleet_resizes_per_hour=3),
    ],
    ids=["hour", "day", "step", "fleet"],
)
async def test_a_swap_that_safety_limits_would_stop_half_way_is_not_begun(
    limits: SafetyLimits, job: str
) -> None:
    fleet = await swapping(ADS, Standing("feed"))
    fleet.loops[job].policy = replace(fleet.loops[job].policy, safety=limits)
    before = {name: await trained(fleet, name) for name in fleet.loops}

    for _ in range(16):
        await fleet.ticks(1)
        for name in fleet.loops:
            assert await trained(fleet, name) >= before[name]

    assert await where(fleet) == [{"t4": 4}, {"a100": 4}]


async def test_a_swap_for_which_the_limits_just_suffice_is_made_to_its_end() -> None:
    fleet = await swapping(ADS, Standing("feed"))
    limits = SafetyLimits(resizes_per_hour=2, fleet_resizes_per_hour=4)
    for loop in fleet.loops.values():
        loop.policy = replace(loop.policy, safety=limits)

    await fleet.ticks(24)

    assert await where(fleet) == [{"a100": 4}, {"t4": 4}]


async def test_what_a_swap_needs_is_not_spent_on_shrinking_nor_by_others() -> None:
    fleet = await swapping(ADS, Standing("feed"))
    for loop in fleet.loops.values():
        loop.policy = replace(loop.policy, safety=SafetyLimits(resizes_per_hour=2))
    while (await fleet.asked("feed")).get("a100") == 4:
        await fleet.ticks(1)
    now_s = fleet.clock.at_s
    assert fleet.share.reserved("feed", now_s=now_s) == (1, 1)  # its own second half, and that of `ads`
    given_up = (await fleet.asked("feed"))["a100"]
    fleet.meters["feed"].rate = 0.0  # for a moment its rule would shrink it, and with that end all it may do
    await fleet.ticks(1)
    assert (await fleet.asked("feed"))["a100"] == given_up
    fleet.meters["feed"].rate = 390.0

    await fleet.ticks(24)

    assert await where(fleet) == [{"a100": 4}, {"t4": 4}]
    assert fleet.share.reserved("feed", now_s=fleet.clock.at_s) == (0, 0)


async def test_one_that_may_not_shrink_is_not_waited_for_for_ever() -> None:
    fleet = await swapping(ADS, Standing("feed"))
    policy = fleet.loops["feed"].policy
    fleet.loops["feed"].policy = replace(policy, limits=replace(policy.limits, workers_min=4))

    await fleet.ticks(10)

    assert await where(fleet) == [{"t4": 4}, {"a100": 4}]
    assert not fleet.share.held()[JobId("", "feed")].workers < 4


@pytest.mark.parametrize("after", [3, 5, 9])
async def test_a_controller_that_takes_over_in_the_middle_finishes_the_swap(after: int) -> None:
    fleet = await swapping(ADS, Standing("feed"))
    await fleet.ticks(after)

    fleet.share = FleetShare(fleet.share.terms, interval_s=TICK_S)
    fleet.loops = {
        name: fleet.loop(loop.policy.standing) for name, loop in fleet.loops.items() if loop.policy.standing
    }
    await fleet.ticks(18)

    assert await where(fleet) == [{"a100": 4}, {"t4": 4}]


async def test_three_in_a_ring_change_places() -> None:
    kinds = ("a100", "h100", "t4")
    fleet = Fleet({"a100": 2, "h100": 2, "t4": 2}, rates={"a100": 100.0, "h100": 200.0, "t4": 50.0})
    for name, at, weight in (("ads", "t4", 25.0), ("feed", "h100", 5.0), ("mail", "a100", 1.0)):
        await fleet.job(Standing(name, weight=weight, workers_max=8), at, 2, types=kinds)
    await fleet.ticks(4)
    for meter in fleet.meters.values():
        meter.rate = 390.0

    await fleet.ticks(30)

    assert await where(fleet) == [{"h100": 2}, {"a100": 2}, {"t4": 2}]


@pytest.mark.parametrize("seed", range(12))
async def test_whoever_swaps_nobody_trains_less_than_alone_on_its_guarantee(seed: int) -> None:
    dice = random.Random(seed)
    fleet = Fleet({"a100": 5, "t4": 5}, rates=RATES)
    promised = {}
    for number, home in enumerate(dice.sample(["a100", "a100", "t4", "t4"], 4)):
        guaranteed = dice.randint(0, 2)
        standing = Standing(
            f"job-{number}",
            weight=dice.choice([1.0, 3.0, 9.0]),
            guaranteed=guaranteed,
            gpu_types=tuple(dict.fromkeys((home, *BOTH))),
            workers_max=16,
        )
        promised[standing.name] = guaranteed * RATES[home]
        await fleet.job(standing, home, 2, types=BOTH)
    await fleet.ticks(4)
    for meter in fleet.meters.values():
        meter.rate = dice.choice([190.0, 290.0, 390.0])

    for _ in range(20):
        await fleet.ticks(1)
        for name, rate in promised.items():
            assert await trained(fleet, name) >= min(rate, fleet.meters[name].rate), f"{seed=} {name}"
