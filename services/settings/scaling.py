"""Settings of what a job promises, how many workers there may be, and who chooses their number."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from estimator.rules import rule_named
from estimator.throughput import ThroughputWindow
from services.control.types import Mode
from services.settings.group import YEAR_S, SettingsGroup
from services.settings.safety import SafetySettings

FreshWithin = Annotated[float, Field(ge=0.001, le=YEAR_S)]
"""Seconds. Nothing is trained within a millisecond."""

WORKERS_MOST = 100_000
"""Rules weigh pool sizes one by one: a limit of a thousand million would take all memory there is."""


class SloSettings(SettingsGroup):
    """The freshness promised."""

    fresh_within_s: FreshWithin = 60.0
    """A sample trained later than this after its arrival is late. Nothing is trained within a millisecond."""
    late_share_target: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """The share of samples that may be late."""


class ProfilePoint(SettingsGroup):
    """What `penstock profile` measured: so many workers, never short of samples, trained so much."""

    workers: PositiveInt
    """How many trained at once."""
    samples_per_s: PositiveFloat
    """What they trained together."""
    gpu_type: str = ""
    """The type of GPU they ran on, as the pool names it; empty where it names none."""


class ScalingSettings(SettingsGroup):
    """How many workers there may be, and how their number is chosen."""

    workers_min: Annotated[int, Field(ge=0)] = 1
    """Never fewer workers than this."""
    workers_max: Annotated[int, Field(ge=1, le=WORKERS_MOST)] = 8
    """Never more workers than this."""
    staleness_batches_max: PositiveInt | None = None
    """How many batches of other gradients may come between a batch's pull and its push: no more workers
    than this over `worker.staleness`. Not looked at when not given."""
    gpus_per_worker: PositiveFloat = 1.0
    """GPUs that one worker holds. GPU-hours, budgets and prices count GPUs."""
    rate_per_worker: PositiveFloat = 1000.0
    """Samples a second that one worker can train. A first guess: learned once measured."""
    profile: list[ProfilePoint] = Field(default_factory=list, max_length=100)
    """What `penstock profile` measured, so that the first decision need not guess: for each pool size
    `workers`, `samples_per_s` and `gpu_type`."""
    lead_time_s: PositiveFloat = 120.0
    """From asking for a worker to its first trained batch."""
    pause_s: NonNegativeFloat = 0.0
    """How long training stops for a resize. Zero with leases."""
    rule: str = "penstock"
    """The sizing rule: `penstock`, or a peer's to compare with: `reactive`, `hpa`, `keda`, `flink`,
    `autopilot`, `madu`, `kale`, `static-max`, `static-mean`."""
    rule_options: dict[str, float] = Field(default_factory=dict)
    """Knobs of the rule, by name."""
    mode: Mode = Mode.ACT
    """`act` resizes the pool; `recommend` only records what it would do."""
    standbys: Literal["auto"] | Annotated[int, Field(ge=0)] = 0
    """Workers kept warm: started and loaded, without leases, and training within a moment when they are
    needed. They count against `workers_max`, and cost what a worker costs. `auto` keeps as many as jumps
    of traffic within the lead time are worth."""
    safety: SafetySettings = SafetySettings()

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.workers_min > self.workers_max:
            raise ValueError(
                f"workers_min ({self.workers_min}) is above workers_max ({self.workers_max}); "
                "lower one or raise the other"
            )
        return self

    @model_validator(mode="after")
    def _rule_exists(self) -> Self:
        rule_named(self.rule, self.rule_options)
        return self


def windows_of(profile: list[ProfilePoint]) -> tuple[ThroughputWindow, ...]:
    """As the throughput model learns them: smaller pools first, each at a time of its own."""
    ordered = sorted(profile, key=lambda point: (point.gpu_type, point.workers))
    return tuple(
        ThroughputWindow(
            at_s=float(place),
            ready=point.workers,
            samples_per_s=point.samples_per_s,
            saturated=True,
            gpu_type=point.gpu_type,
        )
        for place, point in enumerate(ordered)
    )
