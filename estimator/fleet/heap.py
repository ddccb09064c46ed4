"""Max-min of weighted satisfaction on one type: the next worker to whoever is least satisfied for its weight.

The order in which workers are given does not depend on how many GPUs there are, up to the first that
does not fit: so a larger budget continues where a smaller one ends, and takes nothing from the least
satisfied.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from estimator.fleet.claims import EXACT, Claim
from estimator.fleet.standing import Configuration, JobId


class Round(IntEnum):
    """What a worker is given for; earlier rounds come first."""

    DEMAND = 0
    """It adds to what is trained, and well enough."""
    INEFFICIENT = 1
    """It adds less than the marginal rule asks for: given when nobody has a better use for it."""
    HEADROOM = 2
    """The demand is met; the wish is for more, against what was not forecast."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A claim on one type: from how many workers it starts, and how many it may have."""

    claim: Claim
    gpu_type: str
    start: int
    most: int


Key = tuple[bool, Round, float, float, JobId]


def fill(seats: Sequence[Seat], free: float, *, marginal_min: float) -> tuple[list[int], float]:
    """Workers for each seat, and the GPUs left. No seat ends below its start.

    A step that does not fit ends its seat's turn; smaller ones of others may still fit.
    """
    workers = [seat.start for seat in seats]
    heap: list[tuple[Key, int, int]] = []
    for index, seat in enumerate(seats):
        _push(heap, seat, index, seat.start, marginal_min)
    while heap:
        _, index, target = heapq.heappop(heap)
        need = seats[index].claim.wish.job.gpus(target - workers[index])
        if need > free:
            continue
        free -= need
        workers[index] = target
        _push(heap, seats[index], index, target, marginal_min)
    return workers, free


def _push(
    heap: list[tuple[Key, int, int]], seat: Seat, index: int, workers: int, marginal_min: float
) -> None:
    step = next_step(seat, workers, marginal_min=marginal_min)
    if step is None:
        return
    purpose, target = step
    claim = seat.claim
    weight = claim.weight or 1.0
    if purpose is Round.HEADROOM:
        urgency = workers / seat.most / weight
    else:
        urgency = claim.satisfaction(Configuration(seat.gpu_type, workers)) / weight
    heapq.heappush(heap, ((claim.weight == 0, purpose, urgency, -weight, claim.id), index, target))


def next_step(seat: Seat, workers: int, *, marginal_min: float) -> tuple[Round, int] | None:
    """What the next workers would be for, and how many it then has; None when it has all it wants.

    More than one worker at a time where fewer would be worth nothing: up to the fewest it can run
    with, and over a flat part of its curve.
    """
    claim, kind = seat.claim, seat.gpu_type
    if workers >= seat.most:
        return None
    first = max(workers + 1, min(claim.least(kind), seat.most))
    if claim.satisfaction(Configuration(kind, workers)) >= 1.0 - EXACT:
        return Round.HEADROOM, first
    now = claim.samples_per_s(kind, workers)
    enough = marginal_min * first_worth(claim, kind)
    rising: int | None = None
    for target in range(first, seat.most + 1):
        rise = claim.samples_per_s(kind, target) - now
        if rise <= 0:
            continue
        if rise >= enough * (target - workers) * (1 - EXACT):
            return Round.DEMAND, target
        rising = rising or target
    return (Round.HEADROOM, first) if rising is None else (Round.INEFFICIENT, rising)


def first_worth(claim: Claim, gpu_type: str) -> float:
    """What the first worker trains; where it alone trains nothing, the best that workers train on average."""
    lone = claim.samples_per_s(gpu_type, 1)
    if lone > 0:
        return lone
    curve = claim.curves[gpu_type]
    return max((rate / workers for workers, rate in enumerate(curve) if workers), default=0.0)
