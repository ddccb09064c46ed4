"""Two clocks: the machine's, and one moved by hand."""

import asyncio
import math
import time

import pytest

from services.clock import SystemClock, VirtualClock, elapsed_s


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock, woken = VirtualClock(), []

    async def sleep_until(at_s: float) -> None:
        await clock.sleep_until(at_s)
        woken.append((at_s, clock.now_s()))

    async with asyncio.TaskGroup() as sleepers:
        for at_s in (30.0, 10.0, 20.0):
            sleepers.create_task(sleep_until(at_s))
        await asyncio.sleep(0)
        clock.advance(20.0)
        await asyncio.sleep(0)
        assert woken == [(10.0, 20.0), (20.0, 20.0)]
        clock.advance_to(30.0)

    assert woken[-1] == (30.0, 30.0)


async def test_a_simulation_can_go_from_one_waking_to_the_next() -> None:
    clock, ticks = VirtualClock(), []

    async def tick_every(interval_s: float) -> None:
        while True:
            await clock.sleep_until(clock.now_s() + interval_s)
            ticks.append(clock.now_s())

    loop = asyncio.create_task(tick_every(5.0))
    await asyncio.sleep(0)
    while clock.next_wake_s() <= 20.0:
        clock.advance_to(clock.next_wake_s())
        await asyncio.sleep(0)
    loop.cancel()

    assert ticks == [5.0, 10.0, 15.0, 20.0]


async def test_a_time_that_has_passed_is_not_waited_for_but_others_get_their_turn() -> None:
    clock = VirtualClock(100.0)
    other = asyncio.create_task(asyncio.sleep(0))

    await clock.sleep_until(99.0)

    await asyncio.sleep(0)
    assert other.done()


async def test_a_sleeper_that_was_cancelled_is_forgotten() -> None:
    clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep_until(10.0))
    await asyncio.sleep(0)
    assert clock.next_wake_s() == 10.0
    sleeper.cancel()
    await asyncio.wait([sleeper])

    assert clock.next_wake_s() == math.inf
    clock.advance(20.0)


@pytest.mark.parametrize("at_s", [99.0, math.nan])
def test_time_does_not_go_back(at_s: float) -> None:
    with pytest.raises(ValueError, match="cannot advance"):
        VirtualClock(100.0).advance_to(at_s)


async def test_the_system_clock_never_returns_early() -> None:
    clock = SystemClock()
    at_s = clock.now_s() + 0.02

    await clock.sleep_until(at_s)

    assert clock.now_s() >= at_s


@pytest.mark.parametrize(
    ("shows", "sleeps"), [((100.0, 100.25, 101.0), [0.5, 0.25]), ((100.0, 100.5 - 3600.0), [0.5])]
)
async def test_the_system_clock_sleeps_on_when_it_was_set_back_and_never_for_longer_than_was_left(
    shows: tuple[float, ...], sleeps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = iter(shows)
    slept: list[float] = []

    async def sleep(for_s: float) -> None:
        slept.append(for_s)

    monkeypatch.setattr(time, "time", lambda: next(shown))
    monkeypatch.setattr(asyncio, "sleep", sleep)

    await SystemClock().sleep_until(100.5)

    assert slept == sleeps


def test_elapsed_time_never_goes_back() -> None:
    looks = [elapsed_s() for _ in range(100)]

    assert looks == sorted(looks)
