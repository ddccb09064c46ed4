"""How often a pool was resized, what holds it, and the trail of its resizes, as documents."""

from __future__ import annotations

from typing import Self

from services.control.actuation import Outcome
from services.control.breaker import Breaker, BreakerPhase
from services.control.types import Decision, Reason
from services.controller.views.view import View
from services.settings.safety import SafetySettings


class BreakerView(View):
    """One direction's circuit breaker."""

    phase: BreakerPhase
    failures: int
    """Resizes in a row that failed or did not help."""
    until_s: float | None
    """When one resize is tried again; null while it is closed."""
    why: str
    """What failed last; empty when nothing did."""

    @classmethod
    def of(cls, breaker: Breaker, now_s: float) -> Self:
        """As of `now_s`."""
        phase = breaker.phase(now_s)
        return cls(phase=phase, failures=breaker.failures, until_s=breaker.until_s, why=breaker.why)


class SafetyView(View):
    """What keeps the pool from being moved too far, too often or in vain."""

    resizes_hour: int
    """Of this pool, within the last hour."""
    resizes_day: int
    breaker_up: BreakerView
    breaker_down: BreakerView
    resizes_per_hour: int | None = None
    """The most that is allowed; null is no limit, as below."""
    resizes_per_day: int | None = None
    step_up_max: int | None = None
    """Workers that one resize may add."""
    step_down_max: int | None = None

    @classmethod
    def of(cls, decision: Decision, allowed: SafetySettings) -> Self:
        """As of the latest decision, its own resize included."""
        safety, now_s = decision.state.safety, decision.at_s
        return cls(
            resizes_hour=safety.hour.at(now_s),
            resizes_day=safety.day.at(now_s),
            resizes_per_hour=allowed.resizes_per_hour,
            resizes_per_day=allowed.resizes_per_day,
            step_up_max=allowed.step_up_max,
            step_down_max=allowed.step_down_max,
            breaker_up=BreakerView.of(safety.up, now_s),
            breaker_down=BreakerView.of(safety.down, now_s),
        )


class ActuationView(View):
    """One resize of the pool: on which decision, and what became of it."""

    decision_id: str
    at_s: float
    """When it was written down, before it was done."""
    before: int
    workers: int
    reason: Reason
    remove: tuple[str, ...]
    """Workers that were told to leave."""
    outcome: Outcome
    ended_at_s: float | None
    why: str
    """The platform's words, where it refused."""
    times: int
    """How often in a row the same was asked for in vain; the other fields are of the latest."""
    first_at_s: float | None
    """When it was asked for first; null where it was once."""
