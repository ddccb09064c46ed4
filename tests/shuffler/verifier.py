"""Judges a plan of who owns what by the rules alone: it shares no code with what made the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from shuffler.assignment import Assignment
from shuffler.rebalance import TOLERANCE, Move

_SLACK = 1e-6
"""What the solver may be off by."""


@dataclass(frozen=True)
class Case:
    """A plan and what it was made from."""

    before: Assignment
    loads: Sequence[float]
    speeds: Mapping[str, float]
    after: Assignment
    moves: tuple[Move, ...]
    moves_max: int | None = None

    fair: float = field(init=False)
    """Load for each unit of speed, were everything divisible."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fair", sum(self.loads) / sum(self.speeds.values()))


def violations(case: Case) -> list[str]:
    """Every rule that the plan breaks, in words."""
    return [*_owners(case), *_splits(case), *_told(case), *_kept(case), *_balance(case)]


def _owners(case: Case) -> Iterator[str]:
    if set(case.after.owners) != set(range(len(case.loads))):
        yield "a partition is missing, or one too many is there"
    for partition, owners in case.after.owners.items():
        if not owners:
            yield f"partition {partition} has no owner"
        if not set(owners) <= case.speeds.keys():
            yield f"partition {partition} is owned by somebody who is not there"
        if len(set(owners)) < len(owners):
            yield f"partition {partition} is owned twice by one worker"
    if case.loads and case.after.workers() < case.speeds.keys():
        yield "a worker has nothing to do"


def _splits(case: Case) -> Iterator[str]:
    """A partition too heavy for the fastest is split; others only to give idle workers something."""
    sharers = sum(len(owners) - 1 for owners in case.after.owners.values())
    hot = _hot(case)
    for partition in hot:
        if len(case.speeds) > 1 and len(case.after.owners.get(partition, ())) < 2:
            yield f"partition {partition} is too much for any worker and was not split"
    if not hot and sharers > max(0, len(case.speeds) - len(_whole_owners(case))):
        yield "partitions are shared without need"


def _whole_owners(case: Case) -> set[str]:
    """Workers that own something first: the others were only added to it."""
    return {owners[0] for owners in case.after.owners.values() if owners}


def _told(case: Case) -> Iterator[str]:
    """What left a live owner is told as a move, with both sides right."""
    told = {move.partition for move in case.moves}
    if told != {m.partition for m in case.moves if case.after.owners.get(m.partition) == m.after}:
        yield "a move does not say where the partition is now"
    for partition in _left_a_live_owner(case):
        if partition not in told:
            yield f"partition {partition} left its owner and nobody was told"


def _left_a_live_owner(case: Case) -> list[int]:
    return [
        partition
        for partition, owners in case.after.owners.items()
        for first in case.before.owners.get(partition, ())[:1]
        if first in case.speeds and first not in owners
    ]


def _left_whole(case: Case) -> list[int]:
    """Those that moved though one worker could carry them: splitting the others cannot wait."""
    hot, moved = _hot(case), []
    for partition, owners in case.after.owners.items():
        alive = [owner for owner in case.before.owners.get(partition, ()) if owner in case.speeds]
        if partition not in hot and alive and alive[:1] != list(owners[:1]):
            moved.append(partition)
    return moved


def _hot(case: Case) -> set[int]:
    carries = case.fair * max(case.speeds.values()) * (1 + TOLERANCE)
    return {p for p, load in enumerate(case.loads) if load > carries * (1 + _SLACK)}


def _kept(case: Case) -> Iterator[str]:
    """No more is moved whole than allowed, and nothing while the plan in force is good enough."""
    left = _left_whole(case)
    if case.moves_max is not None and len(left) > case.moves_max:
        yield f"{len(left)} partitions were moved, {case.moves_max} are allowed"
    fits = set(case.before.owners) == set(case.after.owners)
    alive = fits and all(set(owners) == set(owners) & case.speeds.keys() for owners in _values(case.before))
    single = alive and all(len(owners) == 1 for owners in _values(case.before))
    if single and left and peak(case.before, case.loads, case.speeds) <= case.fair * (1 + TOLERANCE):
        yield f"{len(left)} partitions were moved though all workers were within tolerance"


def _values(assignment: Assignment) -> list[tuple[str, ...]]:
    return list(assignment.owners.values())


def _balance(case: Case) -> Iterator[str]:
    """Within tolerance, or else no move of one partition would help; with moves to spare.

    Workers that were only added to a partition which needs no second do not count: that is a gift.
    """
    if case.moves_max is not None and len(_left_whole(case)) >= case.moves_max:
        return
    if any(not owners or not set(owners) <= case.speeds.keys() for owners in _values(case.after)):
        return
    if set(case.after.owners) != set(range(len(case.loads))) or not case.loads:
        return
    hot = _hot(case)
    owned = {p: owners if p in hot else owners[:1] for p, owners in case.after.owners.items()}
    carried = _carried(Assignment(owned), case.loads, case.speeds)
    now = max(carried.values())
    if now <= case.fair * (1 + TOLERANCE) * (1 + _SLACK) + _SLACK:
        return
    for partition, owners in owned.items():
        if len(owners) > 1 or carried[owners[0]] < now * (1 - _SLACK):
            continue
        for worker in case.speeds:
            other = Assignment({**owned, partition: (worker,)})
            if peak(other, case.loads, case.speeds) < now * (1 - 1e-3):
                yield f"partition {partition} with {worker} would lower the peak of {now:.4g}"
                return


def peak(assignment: Assignment, loads: Sequence[float], speeds: Mapping[str, float]) -> float:
    """The load for its speed of the fullest worker, when owners share partitions as is best for them."""
    return max(_carried(assignment, loads, speeds).values())


def _carried(assignment: Assignment, loads: Sequence[float], speeds: Mapping[str, float]) -> dict[str, float]:
    """What each worker carries for its speed, the fullest as little as can be.

    Where partitions are shared, a linear programme: each owner's part of each partition, and the peak
    above all of them.
    """
    shares = [(p, owner) for p, owners in sorted(assignment.owners.items()) for owner in owners]
    parts = np.asarray([loads[p] for p, _ in shares])
    if len(shares) > len(assignment.owners):
        parts = _best_parts(shares, loads, speeds)
    carried = dict.fromkeys(speeds, 0.0)
    for (_, owner), part in zip(shares, parts, strict=True):
        carried[owner] += float(part) / speeds[owner]
    return carried


def _best_parts(
    shares: Sequence[tuple[int, str]], loads: Sequence[float], speeds: Mapping[str, float]
) -> NDArray[np.float64]:
    names = sorted(speeds)
    total = np.zeros((len(loads), len(shares) + 1))
    carried = np.zeros((len(names), len(shares) + 1))
    for place, (partition, owner) in enumerate(shares):
        total[partition, place] = 1.0
        carried[names.index(owner), place] = 1.0 / speeds[owner]
    carried[:, -1] = -1.0
    goal = np.zeros(len(shares) + 1)
    goal[-1] = 1.0
    found = linprog(goal, A_ub=carried, b_ub=np.zeros(len(names)), A_eq=total, b_eq=np.asarray(loads))
    assert found.success, found.message
    parts: NDArray[np.float64] = found.x[:-1]
    return parts
