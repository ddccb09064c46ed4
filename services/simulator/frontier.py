"""Frontiers: each policy at every setting of its own knob."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.simulator.contest import Judged, Verdict
from services.simulator.hull import Point, ReadAcross, pooled, read_across
from services.simulator.policies import PolicyChoice


@dataclass(frozen=True, slots=True)
class Frontier:
    """The points of every policy, and how each reads across against the baseline."""

    baseline: Point
    points: Mapping[str, tuple[Point, ...]]
    across: tuple[ReadAcross, ...]

    @property
    def every_point(self) -> tuple[Point, ...]:
        """All of them, policy by policy."""
        return tuple(point for points in self.points.values() for point in points)


def swept(choices: Sequence[PolicyChoice]) -> tuple[PolicyChoice, ...]:
    """Each chosen policy as chosen and at every setting of its knob, none twice."""
    every = [*choices, *(turned for choice in choices for turned in choice.sweep)]
    return tuple({choice.label: choice for choice in every}.values())


def frontier_of(verdicts: Iterable[Verdict], *, baseline: str) -> Frontier:
    """The frontier over several traces on one plant, each with the same weight.

    `baseline` is the label of a policy that was run on all of them.
    """
    runs: dict[str, list[Judged]] = {}
    for verdict in verdicts:
        for judged in verdict.judged:
            runs.setdefault(judged.choice.label, []).append(judged)
    by_name: dict[str, list[Point]] = {}
    for label, every in runs.items():
        point = pooled(label, [(judged.figures.late_share, judged.over_floor) for judged in every])
        by_name.setdefault(every[0].choice.name, []).append(point)
    points = {name: tuple(found) for name, found in by_name.items()}
    against = next(point for found in points.values() for point in found if point.label == baseline)
    across = tuple(read_across(name, found, against) for name, found in points.items())
    return Frontier(against, points, across)
