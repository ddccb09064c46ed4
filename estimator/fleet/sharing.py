"""One decision for all jobs: nothing but the wishes while they fit, and a fair share when they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from estimator.fleet.budget import Budget
from estimator.fleet.claims import Claim, claims_of, searchable
from estimator.fleet.configurations import Terms, choices_of
from estimator.fleet.explanation import explained
from estimator.fleet.guarantees import homes_of
from estimator.fleet.plan import FleetPlan, Method
from estimator.fleet.programme import Solver, Unsolved, solved
from estimator.fleet.standing import NOTHING, Configuration
from estimator.fleet.tenants import Tenants
from estimator.fleet.typed_heap import heaped, topped_up
from estimator.fleet.wish import DEFAULT_RULES, ShareRules, Wish

NO_TENANTS = Tenants()


def share(
    budget: Budget,
    wishes: Sequence[Wish],
    tenants: Tenants = NO_TENANTS,
    *,
    rules: ShareRules = DEFAULT_RULES,
    solve: Solver = solved,
) -> FleetPlan:
    """Who gets what. The same input gives the same plan; the order of the wishes does not matter.

    While the wishes fit, nothing is searched. Where every job has one type only, the heap shares each
    type; else the integer programme does, and the heap where that finds nothing.
    Guarantees beyond the declared budget are refused, with their sum. While nodes are lost and the
    rest cannot hold them all, they are shared like everything else, and the plan's note says so.
    """
    homes = homes_of([wish.job for wish in wishes], budget)
    claims = claims_of(wishes, budget, tenants, homes)
    there = budget.gpus
    claims, note = _with_pins_that_hold(claims, there)
    granted = [_wished(claim) for claim in claims]
    contended = tuple(kind for kind, gpus in _taken(claims, granted).items() if gpus > there.get(kind, 0))
    if not contended:
        return explained(claims, granted, there, Method.WISHES, rules=rules, note=note)
    claims = [searchable(claim) for claim in claims]
    if all(sum(most > 0 for most in claim.most.values()) <= 1 for claim in claims):
        given = heaped(claims, there, rules)
        return explained(claims, given, there, Method.HEAP, rules=rules, contended=contended, note=note)
    try:
        given, gap, late = _programmed(claims, budget, rules, solve)
    except Unsolved as why:
        given = heaped(claims, there, rules)
        note = "; ".join(filter(None, (note, str(why))))
        return explained(claims, given, there, Method.FALLBACK, rules=rules, contended=contended, note=note)
    note = "; ".join(filter(None, (note, late)))
    return explained(
        claims, given, there, Method.PROGRAMME, rules=rules, contended=contended, gap=gap, note=note
    )


def _programmed(
    claims: Sequence[Claim], budget: Budget, rules: ShareRules, solve: Solver
) -> tuple[list[Configuration], float, str]:
    """The programme's choice, its gap, and what to say of it; what it leaves goes to whoever can use it."""
    there, terms = budget.gpus, Terms.of(budget, rules)
    order = sorted(range(len(claims)), key=lambda index: claims[index].id)
    jobs = [choices_of(claims[index], terms) for index in order]
    solution = solve(jobs, there, rules)
    given = [NOTHING] * len(claims)
    for index, choices, picked in zip(order, jobs, solution.picked, strict=True):
        given[index] = choices[picked].at
    late = "" if solution.in_time else f"the programme ran out of its {rules.time_limit_s:g} s"
    return topped_up(claims, given, there, rules), solution.gap, late


def _wished(claim: Claim) -> Configuration:
    """What it gets without contention: nothing where its types are not there, what it has in a resize."""
    if claim.pinned is not None:
        return claim.pinned
    return claim.asked if claim.asked.gpu_type in claim.most else NOTHING


def _with_pins_that_hold(claims: list[Claim], there: Mapping[str, int]) -> tuple[list[Claim], str]:
    """Without the pins of a type that no longer has the GPUs for them: a lost node ends what was going on."""
    pinned = _taken(claims, [claim.pinned or NOTHING for claim in claims])
    broken = {kind for kind, gpus in pinned.items() if gpus > there.get(kind, 0)}
    if not broken:
        return claims, ""
    note = f"jobs in the middle of a resize hold more of {', '.join(sorted(broken))} than is there: not held"
    return [
        replace(claim, wish=replace(claim.wish, pinned=False))
        if claim.pinned is not None and claim.pinned.gpu_type in broken
        else claim
        for claim in claims
    ], note


def _taken(claims: Sequence[Claim], granted: Sequence[Configuration]) -> dict[str, float]:
    """GPUs of each type."""
    taken: dict[str, float] = {}
    for claim, at in zip(claims, granted, strict=True):
        if at:
            taken[at.gpu_type] = taken.get(at.gpu_type, 0.0) + claim.gpus(at)
    return taken
