"""The emulated device keeps time as a GPU would."""

from __future__ import annotations

import pytest

from services.trainer.device import EmulatedDevice


class LateSleeper:
    """A clock whose sleeps last a little longer than asked for, as real ones do."""

    def __init__(self, *, late_s: float) -> None:
        self.now = 100.0
        self.late_s = late_s

    def now_s(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self.late_s


def device_on(clock: LateSleeper, *, step_ms: float = 100.0, batch: int = 10) -> EmulatedDevice:
    return EmulatedDevice(step_ms=step_ms, batch=batch, now_s=clock.now_s, sleep=clock.sleep)


def test_a_full_batch_takes_the_step_time_and_a_part_its_share() -> None:
    clock = LateSleeper(late_s=0.0)
    device = device_on(clock)

    device.step(10)
    assert clock.now == pytest.approx(100.1)
    clock.now += 5.0
    device.step(4)

    assert clock.now == pytest.approx(105.14)


def test_late_wake_ups_and_work_in_between_do_not_add_up() -> None:
    clock = LateSleeper(late_s=0.003)
    device = device_on(clock)
    for _ in range(50):
        device.step(10)
        clock.now += 0.004  # fetching the next batch

    assert clock.now - 100.0 == pytest.approx(50 * 0.1, abs=0.01)


def test_an_idle_device_does_not_catch_up_on_time_it_did_not_work() -> None:
    clock = LateSleeper(late_s=0.0)
    device = device_on(clock)
    device.step(10)
    clock.now += 1.0
    began_s = clock.now

    device.step(10)

    assert clock.now - began_s == pytest.approx(0.1)


def test_a_step_of_no_time_takes_none() -> None:
    clock = LateSleeper(late_s=1.0)

    device_on(clock, step_ms=0.0).step(10)

    assert clock.now == 100.0
