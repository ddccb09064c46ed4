"""What keeps a rule, or a platform, from moving a pool too far, too often, or in vain.

Which yields to which (docs/pools.md has the table): a pause beats all; an operator's override and the
job's own limits beat everything here; then the breaker, the day's budget, the rates of the job and of
the fleet, and last the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

from estimator.reason import Reason
from services.control.breaker import Breaker, BreakerPhase, BreakerTerms
from services.control.rolling_count import RollingCount

HOUR_S = 3600.0
DAY_S = 86_400.0

PATIENCE = 3.0
"""Lead times that a growing pool may take to show one more ready worker."""
PATIENCE_LEAST_S = 60.0


@dataclass(frozen=True, slots=True)
class SafetyLimits:
    """What an operator allows. None is no limit."""

    step_up_max: int | None = None
    """Workers added by one resize."""
    step_down_max: int | None = None
    resizes_per_hour: int | None = None
    resizes_per_day: int | None = None
    fleet_resizes_per_hour: int | None = None
    """Of all jobs together."""
    breaker: BreakerTerms | None = None


SAFETY_REASONS = frozenset(
    {
        Reason.AT_STEP,
        Reason.BREAKER_OPEN,
        Reason.RESIZE_BUDGET,
        Reason.RESIZE_RATE,
        Reason.FLEET_RESIZE_RATE,
    }
)
"""What keeps a pool from where it should go, whatever asks for that."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the limits leave for now."""

    resizes: float = inf
    """Of the job's own."""
    fleet_resizes: float = inf
    """Of all jobs together."""
    step_up: float = inf


@dataclass(frozen=True, slots=True)
class Asked:
    """The last resize, until it is known what became of it."""

    at_s: float
    before: int
    workers: int
    ready: int
    """Workers that were ready when the first growth still awaited was asked for."""
    since_s: float
    """When that was, or when patience was lost last."""
    accepted: bool = False

    @property
    def grows(self) -> bool:
        return self.workers > self.before


@dataclass(frozen=True, slots=True)
class SafetyMemory:
    """What a job's resizes came to. Stored with the state: a successor goes on counting."""

    hour: RollingCount = field(default_factory=lambda: RollingCount(HOUR_S))
    day: RollingCount = field(default_factory=lambda: RollingCount(DAY_S))
    up: Breaker = field(default_factory=Breaker)
    down: Breaker = field(default_factory=Breaker)
    asked: Asked | None = None
    wall_at_s: float | None = None
    """When the throughput model last found that more workers train hardly more."""

    def resized(self, now_s: float, *, before: int, workers: int, ready: int) -> SafetyMemory:
        """A resize is asked for now. Growth on growth is awaited from the first."""
        asked = Asked(now_s, before, workers, ready, since_s=now_s)
        if self.asked is not None and self.asked.grows and asked.grows:
            asked = replace(asked, ready=self.asked.ready, since_s=self.asked.since_s)
        return replace(self, hour=self.hour.noted(now_s), day=self.day.noted(now_s), asked=asked)


@dataclass(frozen=True, slots=True)
class PoolNow:
    """What is seen of the pool when its last resize is judged."""

    at_s: float
    requested: int
    ready: int
    lead_time_s: float
    wall_at_s: float | None = None


def judged(memory: SafetyMemory, now: PoolNow, terms: BreakerTerms | None) -> SafetyMemory:
    """What the pool shows of the last resize. The platform's word counts, not the answer to the call:
    one that was lost on the way may have been obeyed."""
    hour, day = memory.hour.aged(now.at_s), memory.day.aged(now.at_s)
    if terms is None:
        return SafetyMemory(hour, day, wall_at_s=now.wall_at_s)
    if hour is not memory.hour or day is not memory.day:
        memory = replace(memory, hour=hour, day=day)
    up, down = memory.up.aged(now.at_s, terms), memory.down.aged(now.at_s, terms)
    if up is not memory.up or down is not memory.down:
        memory = replace(memory, up=up, down=down)
    if now.wall_at_s is not None and now.wall_at_s != memory.wall_at_s:
        memory = replace(memory, up=memory.up.failed(now.at_s, "more workers trained hardly more", terms))
    if memory.wall_at_s != now.wall_at_s:
        memory = replace(memory, wall_at_s=now.wall_at_s)
    asked = memory.asked
    if asked is None:
        return memory
    if not asked.accepted:
        if not _moved(asked, now.requested):
            return _refused(memory, asked, now, terms)
        asked = replace(asked, accepted=True)
    if not asked.grows:
        return replace(memory, down=memory.down.succeeded(), asked=None)
    return _growth(memory, asked, now, terms)


def _moved(asked: Asked, requested: int) -> bool:
    """Whether the platform was asked for that, or at least for a part of the way there."""
    return requested > asked.before if asked.grows else requested < asked.before


def _refused(memory: SafetyMemory, asked: Asked, now: PoolNow, terms: BreakerTerms) -> SafetyMemory:
    why = f"{asked.workers} workers were asked for, and the platform stayed at {now.requested}"
    if asked.grows:
        return replace(memory, up=memory.up.failed(now.at_s, why, terms), asked=None)
    return replace(memory, down=memory.down.failed(now.at_s, why, terms), asked=None)


def _growth(memory: SafetyMemory, asked: Asked, now: PoolNow, terms: BreakerTerms) -> SafetyMemory:
    """One more ready worker is help, unless it is known that more workers train hardly more."""
    if now.ready > asked.ready:
        up = memory.up if now.wall_at_s is not None else memory.up.succeeded()
        return replace(memory, up=up, asked=None)
    if now.ready < asked.ready:
        asked = replace(asked, ready=now.ready)  # some died: one that comes now is help again
    if now.at_s < asked.since_s:
        asked = replace(asked, since_s=now.at_s)  # the clock was set back: patience begins again
    waited_s = now.at_s - asked.since_s
    if waited_s < max(PATIENCE * now.lead_time_s, PATIENCE_LEAST_S):
        return replace(memory, asked=asked)
    why = f"{asked.workers} workers were asked for, and none has come in {waited_s:.0f} s"
    up = memory.up.failed(now.at_s, why, terms)
    return replace(memory, up=up, asked=replace(asked, since_s=now.at_s))


def restrained(
    planned: int,
    memory: SafetyMemory,
    limits: SafetyLimits,
    *,
    now_s: float,
    requested: int,
    must: int,
    elsewhere: int,
    reserved: int = 0,
) -> tuple[int, Reason | None]:
    """How far a pool of `requested` may go towards `planned` now, and what keeps it from the rest.

    `must` is what it has to come to whatever is said here: `requested` itself, or the nearest size that
    the job's limits allow. `elsewhere` counts the fleet's other resizes of the last hour. `reserved` are
    those that a swap of GPU types still needs to give the job back what it gave up: no shrinking uses them.
    """
    if planned == requested:
        return planned, None
    up = planned > requested
    held = _held(memory, limits, now_s=now_s, up=up, elsewhere=elsewhere, reserved=0 if up else reserved)
    if held is not None:
        return must, held if must != planned else None
    step = limits.step_up_max if up else limits.step_down_max
    if step is None or abs(planned - requested) <= step:
        return planned, None
    stepped = max(requested + step, must) if up else min(requested - step, must)
    return stepped, Reason.AT_STEP if stepped != planned else None


def allowance(memory: SafetyMemory, limits: SafetyLimits, *, now_s: float, elsewhere: int) -> Allowance:
    """What the limits would let through from now on; nothing while a breaker is not closed.

    >>> allowance(SafetyMemory(), SafetyLimits(resizes_per_hour=3), now_s=0.0, elsewhere=0).resizes
    3
    """
    hour, day = memory.hour.at(now_s), memory.day.at(now_s)
    own = [
        limit - used
        for limit, used in ((limits.resizes_per_hour, hour), (limits.resizes_per_day, day))
        if limit is not None
    ]
    broken = limits.breaker is not None and any(
        breaker.phase(now_s) is not BreakerPhase.CLOSED for breaker in (memory.up, memory.down)
    )
    fleet = limits.fleet_resizes_per_hour
    return Allowance(
        0 if broken else min(own, default=inf),
        inf if fleet is None else fleet - hour - elsewhere,
        inf if limits.step_up_max is None else limits.step_up_max,
    )


def _held(
    memory: SafetyMemory, limits: SafetyLimits, *, now_s: float, up: bool, elsewhere: int, reserved: int
) -> Reason | None:
    if limits.breaker is not None and not _lets_through(memory, now_s=now_s, up=up):
        return Reason.BREAKER_OPEN
    if limits.resizes_per_day is not None and memory.day.at(now_s) + reserved >= limits.resizes_per_day:
        return Reason.RESIZE_BUDGET
    here = memory.hour.at(now_s) + reserved
    if limits.resizes_per_hour is not None and here >= limits.resizes_per_hour:
        return Reason.RESIZE_RATE
    if limits.fleet_resizes_per_hour is not None and here + elsewhere >= limits.fleet_resizes_per_hour:
        return Reason.FLEET_RESIZE_RATE
    return None


def _lets_through(memory: SafetyMemory, *, now_s: float, up: bool) -> bool:
    """Half-open lets one try through: none while the outcome of one made since then is awaited."""
    breaker = memory.up if up else memory.down
    phase = breaker.phase(now_s)
    if phase is not BreakerPhase.HALF_OPEN or breaker.until_s is None:
        return phase is BreakerPhase.CLOSED
    tried = memory.asked
    return tried is None or tried.grows != up or tried.at_s < breaker.until_s
