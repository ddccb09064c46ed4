"""Settings of one job: a topic, a pool of workers, and the freshness promised."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import available_timezones

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator, model_validator

from estimator.capacity import Capacity
from estimator.fleet import Standing
from estimator.rules import Rule, rule_named, takes
from estimator.situation import Limits, Slo
from estimator.throughput import ThroughputWindow
from services.control.types import Mode, Policy, Shuffle
from services.settings.fleet import JobFleetSettings
from services.settings.group import SettingsGroup
from services.settings.pool import HEARD_WITHIN_S, PoolSettings
from services.settings.safety import SafetySettings
from services.settings.trainer import ParameterSettings, WorkerSettings

LIGHT_MODELS = ("seasonal", "last-value")
"""Forecasting models that may be asked for alone."""
JOB_ID = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


FreshWithin = Annotated[float, Field(ge=0.001)]
"""Seconds. Nothing is trained within a millisecond."""


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
    workers_max: PositiveInt = 8
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


class BackfillSettings(SettingsGroup):
    """The past that a new job asks Kafka for, as far as the topic's retention reaches."""

    days: NonNegativeFloat = 7.0
    """How far back to go, by the minute for the first day and by ten minutes before; 0 asks for nothing."""
    lookups_max: PositiveInt = 60_000
    """Offsets looked up by time at most; a week takes some 37,000."""
    lookups_per_s: PositiveFloat = 2_800.0
    """Lookups a second at most, of all jobs together: they take turns."""


class MeterSettings(SettingsGroup):
    """How traffic is measured."""

    window_s: PositiveFloat = 10.0
    """The rate in force is the mean over this long: shorter follows faster, longer is calmer."""
    gap_s: PositiveFloat = 30.0
    """Time that nobody looked at for longer than this is a gap in the history, not an average."""
    history_step_s: tuple[PositiveFloat, ...] = (1.0, 10.0, 60.0)
    """The resolutions at which past rates are kept."""
    history_keep_s: tuple[PositiveFloat, ...] = (3_600.0, 86_400.0, 1_209_600.0)
    """How long each of them is kept."""
    backfill: BackfillSettings = BackfillSettings()

    @model_validator(mode="after")
    def _as_many_steps_as_times(self) -> Self:
        pairs = list(zip(self.history_step_s, self.history_keep_s, strict=False))
        if len(self.history_step_s) != len(self.history_keep_s) or any(keep < step for step, keep in pairs):
            raise ValueError(
                "history_step_s and history_keep_s go in pairs; a step is kept for at least its own length"
            )
        if len(set(self.history_step_s)) != len(self.history_step_s):
            raise ValueError("history_step_s names a resolution twice")
        return self


class ForecastSettings(SettingsGroup):
    """How far and how finely traffic is forecast."""

    step_s: PositiveFloat = 60.0
    """Width of a bin of history and forecast."""
    horizon_s: PositiveFloat = 3600.0
    """How far ahead to look."""
    season_s: PositiveFloat = 86_400.0
    """The period after which traffic repeats."""
    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,40}$")] = "patchtst"
    """The network that is trained and mixed with cheaper models by their live scores: `patchtst`, or
    `nhits`, `fedformer` or another of neuralforecast, which need the extra `forecast`. `none` trains the
    cheaper models only. `seasonal` and `last-value` are that light model alone: nothing is trained."""
    beside: (
        list[Literal["regression", "perceptron", "window", "steady-window", "shared-window", "boosting"]]
        | None
    ) = None
    """The cheaper models to train; all but `perceptron` when not given."""
    train_cpu_s: PositiveFloat = 90.0
    """CPU-seconds that one training may take, in a process of its own."""
    retrain_s: PositiveFloat | None = None
    """Between two trainings; a quarter of a season when not given."""
    holidays: list[date] = Field(default_factory=list)
    """Days on which traffic is as on a weekend, `YYYY-MM-DD`."""
    timezone: str = "UTC"
    """Where the traffic is made, as in `Europe/Paris`: days and daylight saving follow it."""

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, timezone: str) -> str:
        if timezone != "UTC" and timezone not in available_timezones():
            raise ValueError(f"{timezone!r} is no time zone; write it as in Europe/Paris")
        return timezone

    @property
    def light(self) -> bool:
        """Whether a light model alone was asked for."""
        return self.model in LIGHT_MODELS


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
    """Work handed out at a time, in seconds of one worker; at most three fifths of
    `slo.fresh_within_s`."""
    lease_ttl_s: PositiveFloat = 15.0
    """A worker silent for this long loses its leases to others."""
    lapses_max: PositiveInt = 4
    """Samples whose workers fell silent this often are given up, with an alert."""

    @field_validator("mode", mode="before")
    @classmethod
    def _off_without_quotes(cls, mode: object) -> object:
        return Shuffle.OFF if mode is False else mode  # what YAML makes of a bare `off`


class JobSettings(SettingsGroup):
    """One online-training job."""

    topic: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
    """The Kafka topic that carries the samples."""
    group: str | None = None
    """The consumer group that shows the progress; `penstock-<job>` when not given."""
    auc_by_delay_s: dict[NonNegativeFloat, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    """AUC against training delay in seconds, where it is known: `auc` of what `penstock freshness --json`
    writes. What-if then tells what AUC lateness costs."""
    slo: SloSettings = SloSettings()
    scaling: ScalingSettings = ScalingSettings()
    meter: MeterSettings = MeterSettings()
    forecast: ForecastSettings = ForecastSettings()
    shuffle: ShuffleSettings = ShuffleSettings()
    pool: PoolSettings = PoolSettings()
    worker: WorkerSettings = WorkerSettings()
    parameters: ParameterSettings = ParameterSettings()
    fleet: JobFleetSettings = JobFleetSettings()

    @model_validator(mode="after")
    def _guaranteed_in_bounds(self) -> Self:
        guaranteed, scaling = self.fleet.guaranteed, self.scaling
        if guaranteed is not None and not scaling.workers_min <= guaranteed <= scaling.workers_max:
            raise ValueError(
                f"fleet.guaranteed ({guaranteed}) is outside workers_min ({scaling.workers_min}) to "
                f"workers_max ({scaling.workers_max})"
            )
        return self

    @model_validator(mode="after")
    def _types_have_pools(self) -> Self:
        pools = self.pool.by_gpu_type
        without = next((kind for kind in self.fleet.gpu_types if pools and kind not in pools), None)
        if without is not None:
            raise ValueError(f"fleet.gpu_types names {without!r}, and pool.by_gpu_type has no pool for it")
        return self

    @model_validator(mode="after")
    def _staleness_leaves_room(self) -> Self:
        most = self.workers_unstale_max
        if most is not None and most < max(self.scaling.workers_min, 1):
            raise ValueError(
                f"staleness_batches_max ({self.scaling.staleness_batches_max}) with worker.staleness "
                f"({self.worker.staleness}) allows {most} workers, workers_min is "
                f"{self.scaling.workers_min}; raise the one or lower the others"
            )
        return self

    @model_validator(mode="after")
    def _leases_lapse_before_a_worker_is_ended(self) -> Self:
        """Whoever answers gives its leases back before `drain_s`; whoever does not has lost them by then."""
        drain_s, least_s = self.pool.drain_s, self.shuffle.lease_ttl_s + HEARD_WITHIN_S
        if self.shuffle.mode is Shuffle.LEASES and drain_s < least_s:
            raise ValueError(
                f"pool.drain_s ({drain_s:g}) is below shuffle.lease_ttl_s and {HEARD_WITHIN_S:g} s "
                f"({least_s:g}): a worker would be ended while it holds leases; raise the one or lower "
                "the other"
            )
        return self

    @property
    def workers_unstale_max(self) -> int | None:
        """The most workers whose gradients are fresh enough; None where that is no matter."""
        most = self.scaling.staleness_batches_max
        return None if most is None else most // self.worker.staleness

    @field_validator("group")
    @classmethod
    def _group_named(cls, group: str | None) -> str | None:
        if group is not None and not group.strip():
            raise ValueError("group is empty; leave it out to get penstock-<job>")
        return group

    def group_of(self, job: str) -> str:
        """The consumer group of this job when it is called `job`."""
        return self.group or f"penstock-{job}"

    def _rule(self) -> Rule[Any]:
        """The rule with its options; one that knows days knows how long they are."""
        scaling = self.scaling
        season = {"season_s": self.forecast.season_s} if takes(scaling.rule, "season_s") else {}
        return rule_named(scaling.rule, season | scaling.rule_options)

    def standing(self, job: str) -> Standing:
        """What this job, when it is called `job`, may count on in a fleet.

        One that only recommends takes nothing, and is promised nothing.
        """
        scaling = self.scaling
        standing = self.fleet.standing(
            job,
            pool_types=tuple(self.pool.by_gpu_type),
            gpus_per_worker=scaling.gpus_per_worker,
            workers_min=scaling.workers_min,
            workers_max=scaling.workers_max,
        )
        acts = scaling.mode is Mode.ACT and self.pool.kind != "recommend"
        return standing if acts else replace(standing, guaranteed=0)

    def policy(self, *, stale_after_s: float, fleet_resizes_per_hour: int | None = None) -> Policy:
        """What the tick needs of all this."""
        scaling = self.scaling
        return Policy(
            slo=Slo(self.slo.fresh_within_s, self.slo.late_share_target),
            limits=Limits(scaling.workers_min, scaling.workers_max),
            rule=self._rule(),
            capacity_prior=Capacity(scaling.rate_per_worker),
            lead_time_s=scaling.lead_time_s,
            pause_s=scaling.pause_s,
            profile=_windows(scaling.profile),
            lone_rates={
                point.gpu_type: point.samples_per_s for point in scaling.profile if point.workers == 1
            },
            workers_unstale_max=self.workers_unstale_max,
            stale_after_s=stale_after_s,
            mode=Mode.RECOMMEND if self.pool.kind == "recommend" else scaling.mode,
            shuffle=self.shuffle.mode,
            forecast_model=self.forecast.model if self.forecast.light else "",
            standbys=None if scaling.standbys == "auto" else scaling.standbys,
            safety=scaling.safety.limits(fleet_resizes_per_hour=fleet_resizes_per_hour),
        )


def _windows(profile: list[ProfilePoint]) -> tuple[ThroughputWindow, ...]:
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
