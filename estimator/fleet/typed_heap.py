"""The heap over several types: every job settles on one, each type is shared on its own, some move once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from estimator.fleet.claims import EXACT, Claim
from estimator.fleet.explanation import left_over
from estimator.fleet.heap import Seat, fill
from estimator.fleet.standing import NOTHING, Configuration
from estimator.fleet.wish import ShareRules


def heaped(claims: Sequence[Claim], there: Mapping[str, int], rules: ShareRules) -> list[Configuration]:
    """What each claim gets. Where every job has one type only, this is the max-min share."""
    kinds = settled(claims, there)
    given = _filled(claims, kinds, _promised(claims, kinds, there), there, rules)
    moved = _moved(claims, given, there)
    if moved == given:
        return given
    kinds = [at.gpu_type if at else kind for at, kind in zip(moved, kinds, strict=True)]
    return _filled(claims, kinds, moved, there, rules)


def topped_up(
    claims: Sequence[Claim], given: Sequence[Configuration], there: Mapping[str, int], rules: ShareRules
) -> list[Configuration]:
    """What a programme gave, and what it left handed out: it chose among a few counts only.

    A job that a resize would stop, and that was left as it is, stays so.
    """
    kinds = [
        "" if at == claim.wish.current and claim.wish.restart < 1 else at.gpu_type
        for claim, at in zip(claims, given, strict=True)
    ]
    grown = _filled(claims, kinds, given, there, rules)
    return _moved(claims, grown, there)


def settled(claims: Sequence[Claim], there: Mapping[str, int]) -> list[str]:
    """A type for each claim: its guarantee's, else what it asks for while there is room, else the best left.

    The heavier ones choose first. Empty for a claim that can use nothing.
    """
    room: dict[str, float] = dict(there)
    kinds = [""] * len(claims)
    order = sorted(range(len(claims)), key=lambda index: _precedence(claims[index]))
    for index in order:
        claim = claims[index]
        kind = _settle(claim, room)
        kinds[index] = kind
        if kind:
            workers = claim.pinned.workers if claim.pinned is not None else claim.most[kind]
            room[kind] = max(0.0, room.get(kind, 0.0) - claim.wish.job.gpus(workers))
    return kinds


def _precedence(claim: Claim) -> tuple[bool, bool, float, object]:
    return claim.pinned is None, not claim.promised, -claim.weight, claim.id


def _settle(claim: Claim, room: Mapping[str, float]) -> str:
    if claim.pinned is not None:
        return claim.pinned.gpu_type
    if claim.promised:
        return claim.home
    usable = [kind for kind, most in claim.most.items() if most]
    if not usable:
        return ""
    asked = claim.asked.gpu_type
    if asked in usable and room[asked] >= claim.gpus(claim.asked):
        return asked

    def rank(kind: str) -> tuple[float, bool, bool, str]:
        workers = min(claim.most[kind], int(room[kind] // claim.wish.job.gpus_per_worker))
        reached = round(claim.satisfaction(Configuration(kind, workers)), 9)
        return -reached, kind != claim.wish.current.gpu_type, kind != asked, kind

    return min(usable, key=rank)


def _promised(claims: Sequence[Claim], kinds: Sequence[str], there: Mapping[str, int]) -> list[Configuration]:
    """What is given before anything is shared: pinned jobs keep theirs, then guarantees.

    Where the guarantees do not fit beside what is pinned or after a loss, they themselves are shared.
    """
    start = [NOTHING if claim.pinned is None else claim.pinned for claim in claims]
    free = left_over(claims, start, there)
    for kind in there:
        seats = [
            (index, Seat(claim, kind, 0, claim.promised.workers))
            for index, claim in enumerate(claims)
            if claim.pinned is None and claim.promised and kinds[index] == kind
        ]
        workers, _ = fill([seat for _, seat in seats], free[kind], marginal_min=0.0)
        for (index, _), count in zip(seats, workers, strict=True):
            start[index] = Configuration(kind, count) if count else NOTHING
    return start


def _filled(
    claims: Sequence[Claim],
    kinds: Sequence[str],
    start: Sequence[Configuration],
    there: Mapping[str, int],
    rules: ShareRules,
) -> list[Configuration]:
    """Each type shared on its own, from `start` upwards."""
    given = list(start)
    free = left_over(claims, given, there)
    for kind in there:
        seats = [
            (index, Seat(claim, kind, given[index].workers, claim.most[kind]))
            for index, claim in enumerate(claims)
            if claim.pinned is None and kinds[index] == kind
        ]
        workers, _ = fill([seat for _, seat in seats], free[kind], marginal_min=rules.marginal_min)
        for (index, _), count in zip(seats, workers, strict=True):
            given[index] = Configuration(kind, count) if count else NOTHING
    return given


def _moved(
    claims: Sequence[Claim], given: Sequence[Configuration], there: Mapping[str, int]
) -> list[Configuration]:
    """The least satisfied move to what is left of another type, where they are better off there."""
    after = list(given)
    free = left_over(claims, given, there)

    def urgency(index: int) -> tuple[bool, float, object]:
        claim = claims[index]
        return claim.weight == 0, claim.satisfaction(after[index]) / (claim.weight or 1.0), claim.id

    for index in sorted(range(len(claims)), key=urgency):
        claim, at = claims[index], after[index]
        if claim.pinned is not None or not any(claim.most.values()):
            continue
        better = max((_best_on(claim, kind, free) for kind in claim.most), key=claim.after_resize)
        if claim.after_resize(better) > claim.after_resize(at) + EXACT:
            if at:
                free[at.gpu_type] += claim.gpus(at)
            free[better.gpu_type] -= claim.gpus(better)
            after[index] = better
    return after


def _best_on(claim: Claim, gpu_type: str, free: Mapping[str, float]) -> Configuration:
    workers = min(claim.most[gpu_type], int(free[gpu_type] // claim.wish.job.gpus_per_worker))
    return Configuration(gpu_type, workers) if workers >= claim.least(gpu_type) else NOTHING
