"""What taking in one more job would do to everybody, and whether to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from estimator.fleet.budget import Budget
from estimator.fleet.errors import InvalidFleet
from estimator.fleet.future import Future, Outlook, played
from estimator.fleet.seating import check_guarantees
from estimator.fleet.sharing import NO_TENANTS
from estimator.fleet.standing import JobId
from estimator.fleet.tenants import Tenants
from estimator.fleet.wish import DEFAULT_RULES, ShareRules

STARTS = 6
"""Later starts that are tried before a job is refused."""


class Verdict(StrEnum):
    """What to do with a job that wants in."""

    ACCEPT = "accept"
    QUEUE = "queue"
    """Not now; from a later time on it would harm nobody."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """What a fleet puts up with for a new job."""

    harm_max: float = 0.005
    """Late share that any other job may gain."""
    late_max: float = 0.01
    """Late share that the new job itself may have."""
    bill_max: float | None = None
    """What the whole fleet may cost over the horizon; None is no limit."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does to one job."""

    job: JobId
    late_before: float
    late_after: float

    @property
    def harm(self) -> float:
        """Late share gained; less than nothing where the job is better off."""
        return self.late_after - self.late_before


@dataclass(frozen=True, slots=True)
class Outcome:
    """What accepting does over one horizon."""

    steps: int
    effects: tuple[Effect, ...]
    """Of the jobs that are there, the most harmed first."""
    late: float
    """Late share of the new job."""
    bill_before: float
    bill_after: float


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict, why, and what accepting now would do."""

    verdict: Verdict
    why: str
    outcomes: tuple[Outcome, ...] = ()
    """By horizon, in the order in which they were asked for."""
    start_s: float = 0.0
    """From now until a queued job may begin."""


def admitted(
    newcomer: Outlook,
    outlooks: Sequence[Outlook],
    budget: Budget,
    tenants: Tenants = NO_TENANTS,
    *,
    horizons: Sequence[int],
    step_s: float,
    policy: AdmissionPolicy | None = None,
    rules: ShareRules = DEFAULT_RULES,
) -> Admission:
    """Whether a job may come in, judged over the longest of `horizons`, in steps of `step_s`.

    A guarantee that does not fit beside the others is refused whatever the forecasts say.
    """
    policy = policy or AdmissionPolicy()
    if any(outlook.job.id == newcomer.job.id for outlook in outlooks):
        raise InvalidFleet(f"job {newcomer.job.id} is in the fleet already")
    try:
        check_guarantees(budget, [*(outlook.job for outlook in outlooks), newcomer.job])
    except InvalidFleet as why:
        return Admission(Verdict.REFUSE, str(why))
    steps = max(horizons)

    def future(jobs: Sequence[Outlook]) -> Future:
        return played(budget, jobs, tenants, steps=steps, step_s=step_s, rules=rules)

    before = future(outlooks)
    after = future([*outlooks, newcomer])
    outcomes = tuple(compared(before, after, newcomer.job.id, horizon) for horizon in horizons)
    objection = _objection(compared(before, after, newcomer.job.id, steps), policy)
    if not objection:
        return Admission(Verdict.ACCEPT, "nobody is harmed beyond what the policy allows", outcomes)
    for start in sorted({steps * part // STARTS for part in range(1, STARTS)} - {0}):
        later = compared(before, future([*outlooks, newcomer.starting(start)]), newcomer.job.id, steps)
        if not _objection(later, policy):
            return Admission(Verdict.QUEUE, objection, outcomes, start * step_s)
    return Admission(Verdict.REFUSE, objection, outcomes)


def compared(before: Future, after: Future, newcomer: JobId | None, steps: int) -> Outcome:
    """Two futures held against each other over the first `steps`."""
    effects = [
        Effect(job, fate.late_share(steps), after.fates[job].late_share(steps))
        for job, fate in before.fates.items()
    ]
    effects.sort(key=lambda effect: (-effect.harm, effect.job))
    late = after.fates[newcomer].late_share(steps) if newcomer is not None else 0.0
    return Outcome(steps, tuple(effects), late, before.bill(steps), after.bill(steps))


def _objection(outcome: Outcome, policy: AdmissionPolicy) -> str:
    """What the policy has against it, in words; empty where nothing."""
    worst = outcome.effects[0] if outcome.effects else None
    if worst is not None and worst.harm > policy.harm_max:
        return (
            f"job {worst.job} would be late with {worst.late_after:.2%} of its samples, "
            f"{worst.late_before:.2%} without the new job"
        )
    if outcome.late > policy.late_max:
        return f"the new job itself would be late with {outcome.late:.2%} of its samples"
    if policy.bill_max is not None and outcome.bill_after > policy.bill_max:
        return f"the fleet would cost {outcome.bill_after:.2f}, and {policy.bill_max:.2f} is the limit"
    return ""
