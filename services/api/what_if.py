"""The port behind `POST /v1/jobs/{job}/what-if`: what a change would cost, before it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from estimator.capacity import Capacity
from forecasting.history import TrafficHistory
from services.settings import JobSettings


class WhatIfUnavailable(Exception):
    """The question cannot be answered now; the message says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """A job as it would be, the throughput it has shown, and the traffic that it has seen."""

    job: JobSettings
    capacity: Capacity
    history: TrafficHistory
    turned: bool = False
    """Whether the rule's own knob is turned: several settings of it are played instead of the job's own."""


@dataclass(frozen=True, slots=True)
class Point:
    """What one setting would come to."""

    setting: str
    """Of the rule's knob, as in `utilisation=0.8`; empty for the job's own."""
    fresh_within_s: float
    late_share: float
    gpu_hours_per_day: float
    workers_mean: float
    workers_max: int
    auc_loss: float | None = None
    """AUC given away by training late; None where the job does not say what lateness costs."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked about comes to, and the traffic that it rests on."""

    points: tuple[Point, ...]
    """One, the job's own; or one for each setting of the rule's knob (none where the rule has no knob)."""
    traffic_s: float
    """How much traffic was played again."""
    took_s: float


class WhatIf(Protocol):
    """Plays a job's recent traffic again under other terms."""

    async def ask(self, question: Question) -> Answer:
        """Raises WhatIfUnavailable."""
        ...
