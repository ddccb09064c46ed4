"""How far partitions are trained, from what is out and what came back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def watermarks(upper: Mapping[int, int], undone: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Per partition, the lowest offset of `upper` and of what is `undone`, given as (partition, start).

    >>> watermarks({0: 50, 1: 7}, [(0, 20), (0, 30)])
    {0: 20, 1: 7}
    """
    low = dict(sorted(upper.items()))
    for partition, start in undone:
        low[partition] = min(low[partition], start)
    return low


def trained_beyond(
    upper: Mapping[int, int], undone: Iterable[tuple[int, int, int]]
) -> dict[int, tuple[tuple[int, int], ...]]:
    """Per partition, the ranges between those that are `undone`, and from the last of them to `upper`.

    >>> trained_beyond({0: 50, 1: 7}, [(0, 30, 40), (0, 20, 25)])
    {0: ((25, 30), (40, 50))}
    """
    found: dict[int, list[tuple[int, int]]] = {}
    reached: dict[int, int] = {}
    for partition, start, end in sorted(undone):
        since = reached.get(partition, start)
        if since < start:
            found.setdefault(partition, []).append((since, start))
        reached[partition] = end
    for partition, since in reached.items():
        if since < upper[partition]:
            found.setdefault(partition, []).append((since, upper[partition]))
    return {partition: tuple(ranges) for partition, ranges in found.items()}
