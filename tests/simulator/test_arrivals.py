"""Seconds from bins: the volume is kept, the future is not told."""

from __future__ import annotations

import numpy as np
import pytest

from services.simulator.arrivals import arrivals_of, peak_rate, scale_to
from services.simulator.course import course_of
from services.simulator.errors import NothingToJudge, TraceInvalid
from tests.simulator.making import a_plant, a_trace


def test_every_bin_keeps_its_volume() -> None:
    trace = a_trace(np.array([10.0, 50.0, 20.0, 0.0]), step_s=600.0)

    seconds = arrivals_of(trace, scale=2.0, seed=3).per_second

    assert np.allclose(seconds.reshape(4, 600).sum(axis=1), 2.0 * 600 * trace.rates)


def test_rates_are_held_within_a_minute_and_move_between_minutes() -> None:
    trace = a_trace(np.full(50, 100.0), step_s=600.0)

    minutes = arrivals_of(trace, scale=1.0, seed=3).per_second.reshape(-1, 60)

    assert np.allclose(minutes, minutes[:, :1])
    assert 0.03 < minutes[:, 0].std() / 100.0 < 0.07


def test_a_bin_says_nothing_of_the_next_one() -> None:
    low, high = np.full(8, 10.0), np.concatenate([np.full(4, 10.0), np.full(4, 90.0)])

    one = arrivals_of(a_trace(low, step_s=600.0), scale=1.0, seed=3).per_second
    other = arrivals_of(a_trace(high, step_s=600.0), scale=1.0, seed=3).per_second

    assert np.array_equal(one[: 4 * 600], other[: 4 * 600])


def test_a_trace_of_minutes_is_held_as_it_is() -> None:
    trace = a_trace(np.array([1.0, 2.0, 3.0]))

    assert arrivals_of(trace, scale=1.0, seed=3).minutes.tolist() == [1.0, 2.0, 3.0]


def test_gusts_move_seconds_and_no_minute() -> None:
    trace = a_trace(np.full(50, 100.0), step_s=600.0)

    calm, gusty = (arrivals_of(trace, scale=1.0, seed=3, gusts=gusts) for gusts in (0.0, 0.3))

    assert np.allclose(gusty.minutes, calm.minutes)
    ratios = (gusty.per_second / calm.per_second).reshape(-1, 60)
    assert 0.2 < ratios.std() < 0.3
    tens = ratios.reshape(-1, 6, 10).mean(axis=2)
    assert tens.std() > 0.5 * ratios.std()  # they last: ten seconds do not average them away


def test_seeds_reproduce_and_differ() -> None:
    trace = a_trace(np.full(20, 100.0), step_s=300.0)

    one, same, other = (arrivals_of(trace, scale=1.0, seed=seed).per_second for seed in (1, 1, 2))

    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_the_trace_is_scaled_so_that_its_peak_needs_the_peak_workers() -> None:
    trace = a_trace(np.linspace(1, 1000, 1001))
    plant = a_plant(peak_workers=8, warmup_days=0)

    course = course_of(trace, plant, seed=1)

    assert scale_to(trace, 800.0) == pytest.approx(800.0 / peak_rate(trace))
    assert np.quantile(course.scored.minutes, 0.999) == pytest.approx(800.0)


def test_a_trace_of_zeros_cannot_be_scaled() -> None:
    with pytest.raises(TraceInvalid, match="zero"):
        course_of(a_trace(np.zeros(100)), a_plant(peak_workers=4), seed=1)


def test_a_short_trace_keeps_half_of_itself_for_scoring() -> None:
    course = course_of(a_trace(np.full(120, 5.0)), a_plant(warmup_days=3), seed=1)

    assert course.scored_from_s == 3600
    assert len(course.scored.per_second) == 3600


def test_all_but_the_last_day_of_the_warm_up_is_history_only() -> None:
    course = course_of(a_trace(np.arange(7 * 1440.0)), a_plant(warmup_days=3), seed=1)

    assert len(course.before) == 2 * 1440
    assert course.scored_from_s == 86_400
    assert course.scored.minutes[0] == 3 * 1440


def test_less_than_a_minute_is_nothing_to_judge() -> None:
    with pytest.raises(NothingToJudge):
        course_of(a_trace(np.array([1.0, 2.0]), step_s=5.0), a_plant(), seed=1)
