"""Reading across frontiers."""

from __future__ import annotations

import math

import pytest

from services.simulator.hull import Point, cost_at, late_at, lower_hull, pooled, read_across

FRONTIER = (Point("a", 0.001, 2.0), Point("b", 0.01, 1.4), Point("worse", 0.01, 1.9), Point("c", 0.1, 1.0))


def test_only_points_that_no_mix_beats_are_on_the_hull() -> None:
    assert [point.label for point in lower_hull(FRONTIER)] == ["a", "b", "c"]
    bent = (*FRONTIER, Point("cheap", 0.001, 1.1))
    assert [point.label for point in lower_hull(bent)] == ["cheap", "c"]


def test_in_between_late_shares_are_logarithms() -> None:
    hull = lower_hull(FRONTIER)

    assert cost_at(hull, math.sqrt(0.001 * 0.01)) == pytest.approx(1.7)
    assert late_at(hull, 1.7) == pytest.approx(math.sqrt(0.001 * 0.01))


def test_outside_of_what_is_known_nothing_is_made_up() -> None:
    hull = lower_hull((Point("b", 0.01, 1.5), Point("c", 0.04, 1.2)))

    assert cost_at(hull, 0.002) is None  # never that punctual
    assert cost_at(hull, 0.2) is None  # beyond what is read across
    assert late_at(hull, 1.1) is None  # never that cheap
    assert late_at(hull, 3.0) == 0.01


def test_a_policy_read_across_against_itself_is_one() -> None:
    ratio = read_across("x", FRONTIER, FRONTIER[1])

    assert ratio.gpu_hours_at_equal_lateness == pytest.approx(1.0)
    assert ratio.late_share_at_equal_gpu_hours == pytest.approx(1.0)


def test_traces_are_pooled_with_equal_weight() -> None:
    assert pooled("x", [(0.0, 1.0), (0.02, 2.0)]) == Point("x", 0.01, 1.5)
