"""Reading across frontiers: GPU-hours at equal lateness, lateness at equal GPU-hours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

LATE_MIN, LATE_MAX = 0.001, 0.05
"""Read across only between these late shares: beyond them one run more or less decides."""


@dataclass(frozen=True, slots=True)
class Point:
    """A policy at one setting: late share against GPU-hours over floor."""

    label: str
    late_share: float
    over_floor: float


def pooled(label: str, per_trace: Sequence[tuple[float, float]]) -> Point:
    """One point for several traces, each with the same volume: plain means of (late share, over floor)."""
    late = sum(late for late, _ in per_trace) / len(per_trace)
    cost = sum(cost for _, cost in per_trace) / len(per_trace)
    return Point(label, late, cost)


def lower_hull(points: Iterable[Point]) -> tuple[Point, ...]:
    """The points that no mix of two others beats, late share ascending, late shares read as logarithms.

    A late share of zero counts as a tenth of the least that is read across, so that it has a logarithm.
    """
    hull: list[Point] = []
    for point in sorted(points, key=lambda p: (_log(p.late_share), p.over_floor)):
        if hull and point.over_floor >= hull[-1].over_floor:
            continue
        while len(hull) >= 2 and _above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return tuple(hull)


def cost_at(hull: Sequence[Point], late_share: float) -> float | None:
    """GPU-hours over floor at a late share; None outside the hull, or outside what is read across."""
    if not LATE_MIN <= late_share <= LATE_MAX or not hull:
        return None
    at = math.log(late_share)
    if at < _log(hull[0].late_share):
        return None
    for left, right in pairwise(hull):
        first, last = _log(left.late_share), _log(right.late_share)
        if first <= at <= last:
            return left.over_floor + (right.over_floor - left.over_floor) * (at - first) / (last - first)
    return hull[-1].over_floor  # later than its latest: it would be at least as good there


def late_at(hull: Sequence[Point], over_floor: float) -> float | None:
    """Late share at GPU-hours over floor; None where the policy never gets that cheap."""
    if not hull or over_floor < hull[-1].over_floor:
        return None
    if over_floor >= hull[0].over_floor:
        return hull[0].late_share
    for left, right in pairwise(hull):
        if right.over_floor <= over_floor <= left.over_floor:
            share = (over_floor - left.over_floor) / (right.over_floor - left.over_floor)
            first, last = _log(left.late_share), _log(right.late_share)
            return math.exp(first + share * (last - first))
    return None


@dataclass(frozen=True, slots=True)
class ReadAcross:
    """A policy's frontier against one point of a baseline, as ratios; None where it cannot be read."""

    policy: str
    gpu_hours_at_equal_lateness: float | None
    late_share_at_equal_gpu_hours: float | None


def read_across(policy: str, points: Iterable[Point], baseline: Point) -> ReadAcross:
    """How the policy's frontier compares with the baseline."""
    hull = lower_hull(points)
    cost, late = cost_at(hull, baseline.late_share), late_at(hull, baseline.over_floor)
    return ReadAcross(
        policy,
        None if cost is None else cost / baseline.over_floor,
        None if late is None or baseline.late_share <= 0 else late / baseline.late_share,
    )


def _log(late_share: float) -> float:
    return math.log(max(late_share, LATE_MIN / 10))


def _above(left: Point, middle: Point, right: Point) -> bool:
    """Whether `middle` lies on or above the line from `left` to `right`."""
    first, at, last = _log(left.late_share), _log(middle.late_share), _log(right.late_share)
    if last <= first:
        return True
    line = left.over_floor + (right.over_floor - left.over_floor) * (at - first) / (last - first)
    return middle.over_floor >= line
