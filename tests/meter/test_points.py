"""Arrival times from (time, end offset) points: always bracketed, to the resolution kept at that age."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.meter.history import Resolution
from services.meter.points import POINT_RESOLUTIONS, EndPoints

increments = st.lists(st.integers(0, 50), min_size=2, max_size=60)


def points_of(ends: list[int], *, every_s: float = 1.0) -> EndPoints:
    points = EndPoints()
    for row, end in enumerate(ends):
        points.add(row * every_s, np.array([end]))
    return points


def one(points: EndPoints, offset: int) -> tuple[float, float, float]:
    arrival = points.arrival(np.array([0]), np.array([offset]))
    return float(arrival.after_s[0]), float(arrival.before_s[0]), float(arrival.at_s[0])


@settings(deadline=None)
@given(increments, st.data())
def test_the_arrival_lies_between_the_polls_that_saw_it(steps: list[int], data: st.DataObject) -> None:
    ends = np.cumsum(steps).tolist()
    offset = data.draw(st.integers(0, ends[-1] + 5))

    after_s, before_s, at_s = one(points_of(ends), offset)

    if offset >= ends[-1]:
        assert before_s == np.inf
    elif offset < ends[0]:
        assert after_s == -np.inf
        assert at_s == before_s == 0.0
    else:
        assert ends[int(after_s)] <= offset < ends[int(before_s)]
        assert before_s - after_s == 1.0
        assert after_s <= at_s <= before_s


@settings(deadline=None)
@given(increments)
def test_a_later_sample_never_arrives_earlier(steps: list[int]) -> None:
    ends = np.cumsum(steps).tolist()
    points = points_of(ends)
    offsets = np.arange(ends[0], ends[-1])

    at_s = points.arrival(np.zeros(len(offsets), dtype=np.intp), offsets).at_s

    assert np.all(np.diff(at_s) >= 0)


def test_points_thin_out_with_age_and_still_bracket_every_sample() -> None:
    points = EndPoints((Resolution(1.0, 100.0), Resolution(10.0, 1000.0), Resolution(60.0, 10_000.0)))
    last_s = 20_000
    for second in range(last_s + 1):
        points.add(float(second), np.array([second * 7]))

    assert len(points) < 2 * 100 + 1000 / 10 + 10_000 / 60 + 64
    for age_s, resolution_s in ((50, 1), (900, 10), (8000, 60)):
        after_s, before_s, at_s = one(points, (last_s - age_s) * 7)
        assert before_s - after_s <= resolution_s * 1.01 + 1
        assert at_s == pytest.approx(last_s - age_s, abs=resolution_s)


def test_memory_is_bounded_by_what_is_documented() -> None:
    rows = sum(resolution.bins for resolution in POINT_RESOLUTIONS)

    assert rows == 2760


def test_trained_points_are_dropped_and_needed_ones_stay() -> None:
    points = points_of([n * 10 for n in range(1000)])

    points.prune(np.array([5005]), before_s=900.0)

    assert len(points) < 600
    assert one(points, 5005)[:2] == (500.0, 501.0)


def test_recent_points_stay_even_when_trained() -> None:
    points = points_of([n * 10 for n in range(1000)])

    points.prune(np.array([9990]), before_s=400.0)

    assert one(points, 6005)[:2] == (600.0, 601.0)


def test_a_partition_that_was_away_is_redrawn_as_rising_evenly() -> None:
    points = points_of([0, 10, 10, 10, 10])
    points.redraw(0, since_s=1.0, since_end=10, at_s=5.0, end=50)
    points.add(5.0, np.array([50]))

    assert one(points, 30)[2] == pytest.approx(3.0, abs=1.0)


def test_new_partitions_begin_at_zero() -> None:
    points = points_of([5, 6])
    points.add(2.0, np.array([7, 40]))

    arrival = points.arrival(np.array([1]), np.array([0]))

    assert (arrival.after_s[0], arrival.before_s[0]) == (1.0, 2.0)


def test_a_hint_narrows_the_bracket_for_its_offset_and_its_neighbours() -> None:
    points = EndPoints()
    points.add(0.0, np.array([0]))
    points.add(1000.0, np.array([100]))
    points.hint(0, 50, after_s=200.0, before_s=201.0)

    assert one(points, 50)[:2] == (200.0, 201.0)
    assert one(points, 60)[:2] == (200.0, 1000.0)
    assert one(points, 40)[:2] == (0.0, 201.0)


def test_a_hint_that_contradicts_the_points_is_not_believed() -> None:
    points = EndPoints()
    points.add(0.0, np.array([0]))
    points.add(10.0, np.array([100]))
    points.hint(0, 50, after_s=500.0, before_s=501.0)

    assert one(points, 50)[:2] == (0.0, 10.0)


@settings(deadline=None)
@given(increments, st.floats(-5, 80))
def test_the_end_at_an_instant_agrees_with_the_points(steps: list[int], at_s: float) -> None:
    ends = np.cumsum(steps).tolist()
    found = points_of(ends).end_at(0, at_s)

    if at_s < 0:
        assert found == 0
    else:
        row = min(int(at_s), len(ends) - 1)
        assert ends[row] <= found <= ends[min(row + 1, len(ends) - 1)]
