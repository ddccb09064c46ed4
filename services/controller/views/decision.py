"""One decision as a document."""

from __future__ import annotations

from typing import Self

from estimator.throughput import Bottleneck, Confidence
from services.control.types import Decision, ForecastUsed, Reason
from services.controller.views.view import View, finite


class DecisionView(View):
    """One decision: what, why, and the numbers that led to it."""

    id: str
    at_s: float
    planned: int
    requested: int
    """What the platform had been asked for before."""
    ready: int
    reason: Reason
    notes: tuple[Reason, ...]
    numbers: dict[str, float | None]
    """Null where a number is not finite: JSON has no other way."""
    standbys: int = 0
    """How many of `planned` are to stand by, loaded and without leases."""
    resized: bool
    confidence: Confidence
    """How far the throughput curve could be trusted beyond the sizes seen."""
    forecast: ForecastUsed | None = None
    """The forecast that it rested on; null where there was none."""
    bottleneck: Bottleneck
    """What limited the workers as they were."""

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Everything but what only the next tick needs."""
        return cls(
            id=decision.id,
            at_s=decision.at_s,
            planned=decision.planned,
            requested=decision.requested,
            ready=decision.ready,
            reason=decision.reason,
            notes=decision.notes,
            numbers={name: finite(v) for name, v in decision.numbers.items()},
            standbys=decision.standbys,
            resized=decision.resize is not None,
            confidence=decision.confidence,
            bottleneck=decision.bottleneck,
            forecast=decision.forecast,
        )
