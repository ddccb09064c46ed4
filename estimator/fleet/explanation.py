"""Why everybody got what they got, and what one more GPU would be worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from estimator.fleet.claims import EXACT, Claim
from estimator.fleet.heap import Round, Seat, next_step
from estimator.fleet.plan import Allotment, Binding, FleetPlan, Method
from estimator.fleet.standing import Configuration
from estimator.fleet.wish import ShareRules


def explained(
    claims: Sequence[Claim],
    given: Sequence[Configuration],
    there: Mapping[str, int],
    method: Method,
    *,
    rules: ShareRules,
    contended: tuple[str, ...] = (),
    gap: float = 0.0,
    note: str = "",
) -> FleetPlan:
    """The plan with its reasons. Without contention one more GPU is worth nothing, and none is priced."""
    if not contended:
        allotments = tuple(_allotment(claim, at, rules, {}) for claim, at in zip(claims, given, strict=True))
        return FleetPlan(allotments, method, note=note)
    free = left_over(claims, given, there)
    worths = [worth_of_one_more(claim, at, free) for claim, at in zip(claims, given, strict=True)]
    prices = {
        kind: max(
            (claim.weight * worth.get(kind, 0.0) for claim, worth in zip(claims, worths, strict=True)),
            default=0.0,
        )
        for kind in there
    }
    allotments = tuple(
        _allotment(claim, at, rules, worth) for claim, at, worth in zip(claims, given, worths, strict=True)
    )
    return FleetPlan(allotments, method, contended, prices, gap, note)


def left_over(
    claims: Sequence[Claim], given: Sequence[Configuration], there: Mapping[str, int]
) -> dict[str, float]:
    """GPUs of each type that nobody has."""
    free: dict[str, float] = dict(there)
    for claim, at in zip(claims, given, strict=True):
        if at:
            free[at.gpu_type] = free.get(at.gpu_type, 0.0) - claim.gpus(at)
    return free


def worth_of_one_more(claim: Claim, at: Configuration, free: Mapping[str, float]) -> dict[str, float]:
    """By type, the satisfaction that one more GPU would add beyond what the GPUs left over could.

    On its own type it would grow; on another it would have to move, and gains only where what it could
    have there beats what it has. A job that takes 8 GPUs a worker and lacks one is worth much.
    """
    return {
        kind: max(0.0, _reachable(claim, at, kind, left + 1) - _reachable(claim, at, kind, left))
        for kind, left in free.items()
        if claim.most.get(kind, 0)
    }


def _reachable(claim: Claim, at: Configuration, gpu_type: str, gpus: float) -> float:
    """The best satisfaction with what it has, and so many more GPUs of a type."""
    held = at.workers if at and at.gpu_type == gpu_type else 0
    workers = min(claim.most[gpu_type], held + int(gpus // claim.wish.job.gpus_per_worker))
    if workers < claim.least(gpu_type):
        return claim.satisfaction(at)
    return max(claim.satisfaction(at), claim.satisfaction(Configuration(gpu_type, workers)))


def _allotment(claim: Claim, at: Configuration, rules: ShareRules, worth: Mapping[str, float]) -> Allotment:
    return Allotment(
        job=claim.id,
        asked=claim.asked,
        given=at,
        satisfaction=claim.satisfaction(at),
        weight=claim.weight,
        binding=_binding(claim, at, rules),
        gpus_per_worker=claim.wish.job.gpus_per_worker,
        worth=worth,
    )


def _binding(claim: Claim, at: Configuration, rules: ShareRules) -> Binding:
    if at == claim.asked:
        return Binding.WISH
    if claim.pinned is not None:
        return Binding.PINNED
    if not claim.most:
        return Binding.NO_TYPE
    same_type = at.gpu_type == claim.asked.gpu_type
    if not same_type and claim.satisfaction(at) >= claim.satisfaction(claim.asked) - EXACT:
        return Binding.WISH
    if not at:
        return Binding.CAPACITY
    seat = Seat(claim, at.gpu_type, at.workers, claim.most.get(at.gpu_type, at.workers))
    step = next_step(seat, at.workers, marginal_min=rules.marginal_min)
    return Binding.EFFICIENCY if step is not None and step[0] is Round.INEFFICIENT else Binding.CAPACITY
