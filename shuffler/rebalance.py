"""Plan who owns which partitions: load in proportion to speed, as few moves as that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shuffler.assignment import Assignment

TOLERANCE = 0.1
"""A worker may carry this share above its fair load before a partition is moved away from it."""
_ROUNDING = 1e-9
"""A gain smaller than this is the arithmetic's: acting on it would move partitions to and fro."""


def rebalance(
    current: Assignment, partition_loads: Sequence[float], worker_speeds: Mapping[str, float]
) -> Assignment:
    """Owners for every partition among the live workers, keeping what can be kept.

    A partition whose owner is gone goes to whoever is least loaded for its
    speed. Then partitions move from the most to the least loaded while that
    lowers the peak and the peak is out of tolerance. A worker that still has
    nothing shares the heaviest partition. No workers, no owners.

    >>> rebalance(Assignment(), [5.0, 5.0], {"a": 1.0, "b": 1.0}).owners
    {0: ('a',), 1: ('b',)}
    """
    if not worker_speeds:
        return Assignment()
    # A partition without measured traffic still has to be read: spread those evenly too.
    smallest = max(sum(partition_loads), 1.0) * 1e-6
    loads = [max(load, smallest) for load in partition_loads]
    owner = _kept_owners(current, len(loads), worker_speeds)
    carried = dict.fromkeys(sorted(worker_speeds), 0.0)
    for partition, name in owner.items():
        carried[name] += loads[partition]

    for partition in sorted(set(range(len(loads))) - owner.keys(), key=lambda p: (-loads[p], p)):
        name = min(carried, key=lambda w: ((carried[w] + loads[partition]) / worker_speeds[w], w))
        owner[partition] = name
        carried[name] += loads[partition]

    _even_out(owner, carried, loads, worker_speeds)
    return Assignment(_with_helpers(owner, carried, loads))


def _kept_owners(current: Assignment, partitions: int, worker_speeds: Mapping[str, float]) -> dict[int, str]:
    kept: dict[int, str] = {}
    for partition, owners in current.owners.items():
        alive = [name for name in owners if name in worker_speeds]
        if alive and partition < partitions:
            kept[partition] = alive[0]
    return kept


def _even_out(
    owner: dict[int, str],
    carried: dict[str, float],
    loads: Sequence[float],
    speeds: Mapping[str, float],
) -> None:
    fair = sum(loads) / sum(speeds.values())
    for _ in range(len(loads) * len(speeds)):  # every move lowers a peak, so this ends long before
        most = max(carried, key=lambda w: (carried[w] / speeds[w], w))
        peak = carried[most] / speeds[most]
        if peak <= fair * (1 + TOLERANCE):
            return
        move = _largest_move(most, owner, carried, loads, speeds)
        if move is None:
            return
        moved, to = move
        owner[moved] = to
        carried[most] -= loads[moved]
        carried[to] += loads[moved]


def _largest_move(
    most: str,
    owner: Mapping[int, str],
    carried: Mapping[str, float],
    loads: Sequence[float],
    speeds: Mapping[str, float],
) -> tuple[int, str] | None:
    """The heaviest partition of `most` that leaves whoever takes it better off, and who takes it best.

    The heaviest settles the matter in the fewest moves.
    """
    peak = carried[most] / speeds[most]
    for partition in sorted((p for p, name in owner.items() if name == most), key=lambda p: (-loads[p], p)):
        after, to = min(
            (((carried[w] + loads[partition]) / speeds[w], w) for w in carried if w != most),
            default=(peak, most),
        )
        if after < peak * (1 - _ROUNDING):
            return partition, to
    return None


def _with_helpers(
    owner: Mapping[int, str], carried: Mapping[str, float], loads: Sequence[float]
) -> dict[int, tuple[str, ...]]:
    owners: dict[int, tuple[str, ...]] = {p: (name,) for p, name in sorted(owner.items())}
    for idle in sorted(set(carried) - set(owner.values())):
        if not owners:
            break
        hottest = max(owners, key=lambda p: (loads[p] / len(owners[p]), -p))
        owners[hottest] = (*owners[hottest], idle)
    return owners
