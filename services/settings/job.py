"""Settings of one job: a topic, a pool of workers, and the freshness promised."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator, model_validator

from estimator.capacity import Capacity
from estimator.fleet import Standing
from estimator.rules import Rule, rule_named, takes
from estimator.situation import Limits, Slo
from services.control.types import Mode, Policy, Shuffle
from services.settings.fleet import JobFleetSettings
from services.settings.group import SettingsGroup
from services.settings.pool import HEARD_WITHIN_S, PoolSettings
from services.settings.scaling import ScalingSettings, SloSettings, windows_of
from services.settings.traffic import ForecastSettings, MeterSettings
from services.settings.trainer import ParameterSettings, WorkerSettings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GROUP_MAX = 255

JOB_ID = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


class ShuffleSettings(SettingsGroup):
    """Who trains which part of the stream."""

    mode: Shuffle = Shuffle.LEASES
    """`leases`: Penstock hands out offset ranges. `group`: Penstock's workers join Kafka's own consumer
    group. `off`: the trainer keeps its own consumer group."""
    start: Literal["committed", "earliest", "latest"] | datetime = "committed"
    """Where a new job starts: the group's commit (else the beginning), the beginning, the end, or a time
    such as `2026-01-31T08:00:00Z`, in UTC where it names no zone."""
    group_protocol: Literal["cooperative-sticky", "consumer"] = "cooperative-sticky"
    """How members agree with `mode: group`: in the classic way, or by the broker's `group.protocol`."""
    lease_s: PositiveFloat = 2.0
    """Work handed out at a time, in seconds of one worker; at most three fifths of
    `slo.fresh_within_s`."""
    lease_ttl_s: PositiveFloat = 15.0
    """A worker silent for this long loses its leases to others."""
    lapses_max: PositiveInt = 4
    """Samples whose workers fell silent this often are given up, with an alert."""

    @field_validator("start")
    @classmethod
    def _same_time_everywhere(cls, start: str | datetime) -> str | datetime:
        """Without a zone it would be another time on a worker that lives in another one."""
        if not isinstance(start, datetime):
            return start
        start = start if start.tzinfo else start.replace(tzinfo=UTC)
        if start < _EPOCH:
            raise ValueError(f"{start.isoformat()} is before 1970: Kafka has no such time; say `earliest`")
        return start

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

    def as_given(self) -> dict[str, Any]:
        """As JSON, to be kept or changed: a rate that nobody gave stays one that jobs of a group may tell."""
        given = "rate_per_worker" in self.scaling.model_fields_set
        return self.model_dump(mode="json", exclude=None if given else {"scaling": {"rate_per_worker"}})

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
        if group is not None and not (group.isprintable() and len(group) <= _GROUP_MAX):
            # A NUL would end the name for Kafka's client, others would draw over a terminal.
            raise ValueError(f"group has 1 to {_GROUP_MAX} printable characters")
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
            profile=windows_of(scaling.profile),
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
