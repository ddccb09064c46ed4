"""Settings of one job: a topic, a pool of workers, and the freshness promised."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator, model_validator

from estimator.capacity import Capacity
from estimator.rules import rule_named
from estimator.situation import Limits, Slo
from services.control.types import Mode, Policy, Shuffle
from services.settings.group import SettingsGroup

JOB_ID = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


class SloSettings(SettingsGroup):
    """The freshness promised."""

    fresh_within_s: PositiveFloat = 60.0
    """A sample trained later than this after its arrival is late."""
    late_share_target: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """The share of samples that may be late."""


class ScalingSettings(SettingsGroup):
    """How many workers there may be, and how their number is chosen."""

    workers_min: Annotated[int, Field(ge=0)] = 1
    """Never fewer workers than this."""
    workers_max: PositiveInt = 8
    """Never more workers than this."""
    gpus_per_worker: PositiveFloat = 1.0
    """GPUs that one worker holds. GPU-hours, budgets and prices count GPUs."""
    rate_per_worker: PositiveFloat = 1000.0
    """Samples a second that one worker can train. A first guess: learned once measured."""
    lead_time_s: PositiveFloat = 120.0
    """From asking for a worker to its first trained batch."""
    pause_s: NonNegativeFloat = 0.0
    """How long training stops for a resize. Zero with leases."""
    rule: str = "penstock"
    """The sizing rule: `penstock` or `reactive`."""
    rule_options: dict[str, float] = Field(default_factory=dict)
    """Knobs of the rule, by name."""
    mode: Mode = Mode.ACT
    """`act` resizes the pool; `recommend` only records what it would do."""

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


class MeterSettings(SettingsGroup):
    """How traffic is measured."""

    window_s: PositiveFloat = 10.0
    """The rate in force is the mean over this long: shorter follows faster, longer is calmer."""


class ForecastSettings(SettingsGroup):
    """How far and how finely traffic is forecast."""

    step_s: PositiveFloat = 60.0
    """Width of a bin of history and forecast."""
    horizon_s: PositiveFloat = 3600.0
    """How far ahead to look."""
    season_s: PositiveFloat = 86_400.0
    """The period after which traffic repeats."""
    model: Literal["seasonal", "last-value"] = "seasonal"
    """The first model to ask; simpler ones stand behind it."""


class ShuffleSettings(SettingsGroup):
    """Who trains which part of the stream."""

    mode: Shuffle = Shuffle.LEASES
    """`leases`: Penstock hands out offset ranges. `group`: Penstock's workers join Kafka's own consumer
    group. `off`: the trainer keeps its own consumer group."""
    start: Literal["committed", "earliest", "latest"] | datetime = "committed"
    """Where a new job starts: the group's commit (else the beginning), the beginning, the end, or a time
    such as `2026-01-31T08:00:00Z`."""
    group_protocol: Literal["cooperative-sticky", "consumer"] = "cooperative-sticky"
    """How members agree with `mode: group`: in the classic way, or by the broker's `group.protocol`."""
    lease_s: PositiveFloat = 2.0
    """Work handed out at a time, in seconds of one worker."""
    lease_ttl_s: PositiveFloat = 15.0
    """A worker silent for this long loses its leases to others."""
    lapses_max: PositiveInt = 4
    """Samples whose workers fell silent this often are given up, with an alert."""


class PoolSettings(SettingsGroup):
    """Where the workers run."""

    kind: Literal["process", "recommend"] = "process"
    """`process`: on this machine. `recommend`: nowhere; decisions are only recorded."""
    command: list[str] | None = None
    """The worker's command line, `{job}` and `{worker}` filled in; Penstock's own when not given."""
    run_dir: Path = Path(".penstock")
    """Where the pool keeps the pids and logs of its workers, so that a restarted controller finds them."""
    drain_s: PositiveFloat = 30.0
    """A worker asked to leave is killed after this long."""
    backoff_max_s: PositiveFloat = 60.0
    """The longest wait before a worker that keeps dying is started again."""


class WorkerSettings(SettingsGroup):
    """Penstock's own worker."""

    device: Literal["emulated"] = "emulated"
    """`emulated` takes as long for a step as a GPU would, and computes nothing."""
    batch: PositiveInt = 128
    """Samples in a step."""
    step_ms: NonNegativeFloat = 128.0
    """How long a step takes on the emulated device."""
    startup_s: NonNegativeFloat = 0.0
    """Extra start-up time, as loading a model would take."""


class JobSettings(SettingsGroup):
    """One online-training job."""

    topic: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
    """The Kafka topic that carries the samples."""
    group: str | None = None
    """The consumer group that shows the progress; `penstock-<job>` when not given."""
    slo: SloSettings = SloSettings()
    scaling: ScalingSettings = ScalingSettings()
    meter: MeterSettings = MeterSettings()
    forecast: ForecastSettings = ForecastSettings()
    shuffle: ShuffleSettings = ShuffleSettings()
    pool: PoolSettings = PoolSettings()
    worker: WorkerSettings = WorkerSettings()

    @field_validator("group")
    @classmethod
    def _group_named(cls, group: str | None) -> str | None:
        if group is not None and not group.strip():
            raise ValueError("group is empty; leave it out to get penstock-<job>")
        return group

    def group_of(self, job: str) -> str:
        """The consumer group of this job when it is called `job`."""
        return self.group or f"penstock-{job}"

    def policy(self, *, stale_after_s: float) -> Policy:
        """What the tick needs of all this."""
        scaling = self.scaling
        return Policy(
            slo=Slo(self.slo.fresh_within_s, self.slo.late_share_target),
            limits=Limits(scaling.workers_min, scaling.workers_max),
            rule=rule_named(scaling.rule, scaling.rule_options),
            capacity_prior=Capacity(scaling.rate_per_worker),
            lead_time_s=scaling.lead_time_s,
            pause_s=scaling.pause_s,
            stale_after_s=stale_after_s,
            mode=Mode.RECOMMEND if self.pool.kind == "recommend" else scaling.mode,
            shuffle=self.shuffle.mode,
            forecast_model=self.forecast.model,
        )
