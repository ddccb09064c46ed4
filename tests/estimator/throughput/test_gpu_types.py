"""A GPU type never seen borrows from one that was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.throughput.gpu_types import GpuTypes, Guess
from estimator.throughput.window import ThroughputWindow
from tests.estimator.throughput.pools import Pool, contended

CURVE = contended(contention=0.08)
CEILING = 6000.0
GUESS = Guess(500.0, lone_rates={"a10": 800.0, "h100": 3000.0})


def experienced(pool: Pool) -> GpuTypes:
    types = GpuTypes()
    for tick in range(120):
        window = pool.window(2 + tick // 20, at_s=10.0 * tick)
        types = types.seen(replace(window, gpu_type="a10"), GUESS)
    return types


def test_the_shape_is_lent_and_the_lone_rate_is_its_own() -> None:
    lent = experienced(Pool(CURVE)).of("h100", GUESS)

    assert lent.samples_per_s(1) == pytest.approx(3000.0, rel=0.01)
    assert lent.samples_per_s(6) == pytest.approx(3 * CURVE(6), rel=0.03)
    assert lent.confidence == "low"


def test_a_type_whose_lone_rate_nobody_knows_is_taken_for_the_one_that_was_seen() -> None:
    lent = experienced(Pool(CURVE)).of("t4", GUESS)

    assert lent.samples_per_s(6) == pytest.approx(CURVE(6), rel=0.03)


def test_a_faster_gpu_does_not_lift_the_ceiling_of_what_it_shares() -> None:
    types = experienced(Pool(lambda n: min(1000.0 * n, CEILING), demand_s=1 / CEILING))

    assert types.of("h100", GUESS).samples_per_s(8) <= 1.02 * CEILING


def test_what_was_seen_of_a_type_counts_more_than_what_is_lent() -> None:
    types = experienced(Pool(CURVE))
    fast = contended(2500.0)
    for tick in range(40):
        window = Pool(fast).window(2 + tick // 20, at_s=10.0 * tick)
        types = types.seen(replace(window, gpu_type="h100"), GUESS)

    assert types.of("h100", GUESS).samples_per_s(3) == pytest.approx(fast(3), rel=0.02)
    assert types.of("a10", GUESS).samples_per_s(3) == pytest.approx(CURVE(3), rel=0.02)


def test_without_anyone_to_lend_it_is_the_guess_and_follows_it() -> None:
    lying = replace(Pool(CURVE).window(2), samples_per_s=-1.0, gpu_type="a10")

    assert GpuTypes().of("t4", GUESS).samples_per_s(1) == pytest.approx(500.0)
    assert GpuTypes().seen(lying, GUESS).of("a10", Guess(70.0)).samples_per_s(1) == pytest.approx(70.0)


def test_a_profile_of_two_sizes_is_known_before_the_first_window_and_lent_to_other_types() -> None:
    profile = tuple(
        ThroughputWindow(at_s=n, ready=n, samples_per_s=rate, saturated=True, gpu_type="a10")
        for n, rate in ((1, 1000.0), (2, 1700.0))
    )
    guess = Guess(50.0, lone_rates={"a10": 1000.0, "h100": 3000.0}, profile=profile)

    known = GpuTypes().of("a10", guess)

    assert known.knowledge.sizes == (1, 2)
    assert known.samples_per_s(1) == pytest.approx(1000.0, rel=0.02)
    assert known.samples_per_s(2) == pytest.approx(1700.0, rel=0.02)
    assert known.samples_per_s(4) < 3300.0, "the contention between two was not seen"
    assert GpuTypes().of("h100", guess).samples_per_s(2) == pytest.approx(5100.0, rel=0.05)
    seen = GpuTypes().seen(ThroughputWindow(9.0, 2, 1700.0, saturated=True, gpu_type="a10"), guess)
    assert seen.of("a10", guess).knowledge.sizes == (1, 2), "a window made it forget the profile"
