"""The plant: what the simulated workers, their pool and their stream are like."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from services.simulator.errors import PlantInvalid
from services.simulator.mistakes import mistakes_in
from services.yaml_file import YamlUnreadable, read_yaml

NORMAL_P90 = 1.2815515655446004
WORKERS_MAX = 64


class Handover(StrEnum):
    """What waits when workers come and go."""

    LEASES = "leases"
    """Only the ranges that moved; whoever is free trains what is most behind."""
    COOPERATIVE = "cooperative"
    """A consumer group; only the partitions that moved wait."""
    EAGER = "eager"
    """A consumer group; all of it waits."""
    RESTART = "restart"
    """Checkpoint and restart of the whole job."""

    @property
    def is_group(self) -> bool:
        """Whether whole partitions are dealt evenly by number, so that a hot one lags alone."""
        return self in (Handover.COOPERATIVE, Handover.EAGER)

    @property
    def stops_all(self) -> bool:
        """Whether every worker waits."""
        return self in (Handover.EAGER, Handover.RESTART)


_HANDOVERS = {
    "group": Handover.EAGER,
    "group-eager": Handover.EAGER,
    "group-cooperative": Handover.COOPERATIVE,
    **{str(handover): handover for handover in Handover},
}


class Frozen(BaseModel):
    """Strict: an unknown key is an error, so a typo cannot pass as a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class Startup(Frozen):
    """Time from asking for a worker to its first batch: lognormal from `median` and `p90`."""

    median: PositiveFloat
    p90: PositiveFloat

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.p90 < self.median:
            raise ValueError(f"p90 ({self.p90:g}) is below the median ({self.median:g})")
        return self

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return math.log(self.p90 / self.median) / NORMAL_P90


class Plant(Frozen):
    """Everything about the world that is not traffic."""

    rate_per_worker: PositiveFloat = 1000.0
    """Samples a second that a lone worker trains."""
    contention: Annotated[float, Field(ge=0, lt=1)] = 0.02
    """Share of a step that is serialised at the parameter server."""
    family: Literal["contention", "retrograde", "hot-shard", "input-cpu", "queueing"] = "contention"
    """Kind of the true throughput curve; see families.py."""
    coherency: NonNegativeFloat = 0.0008
    """`retrograde`: what each pair of workers costs."""
    ceiling_workers: PositiveFloat = 24.0
    """`hot-shard`: the most that the hottest shard serves, in lone workers."""
    workers_per_host: PositiveInt = 4
    """`input-cpu`: workers on one host."""
    host_feeds_workers: PositiveFloat = 3.0
    """`input-cpu`: how many workers a host's CPUs can feed."""
    slowdown: Literal["members", "load"] = "members"
    """What slows a worker: `members`, how many are there; `load`, how many are busy at once."""
    startup_s: NonNegativeFloat | Startup = 180.0
    """From asking for a worker to its first batch: a number is fixed, `{median, p90}` is lognormal."""
    pause_s: NonNegativeFloat = 0.0
    """How long what is handed over waits when workers come or go."""
    shuffle: Handover = Handover.LEASES
    """`leases`, `cooperative`, `eager` (or `group`) or `restart`."""
    drain_s: NonNegativeFloat = 2.0
    """A worker told to leave holds its GPU this long."""
    slo_s: PositiveFloat = 60.0
    """A sample trained later than this after its arrival is late."""
    late_share_target: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """The share of samples that may be late; what policies that know an error budget are told."""
    standbys: Literal["auto"] | Annotated[int, Field(ge=0)] = 0
    """Workers kept loaded and without leases, as `scaling.standbys`."""
    workers_min: Annotated[int, Field(ge=0)] = 1
    """Never fewer workers than this."""
    workers_max: PositiveInt | None = None
    """Never more; twice `peak_workers` when not given, 64 without that either."""
    peak_workers: PositiveInt | None = None
    """Scale the trace so that its 99.9 % quantile needs this many workers; rates as they are without it."""
    gpus_per_worker: PositiveFloat = 1.0
    """GPUs that one worker holds."""
    tick_s: PositiveInt = 10
    """Seconds between two decisions of a policy that has no period of its own."""
    warmup_days: NonNegativeFloat = 1.0
    """History given to policies before scoring starts; its last day runs unscored."""
    partitions: PositiveInt = 64
    """Partitions of the topic."""
    skew: NonNegativeFloat = 0.0
    """Partition p gets traffic in proportion to (p+1)^-skew."""
    gusts: Annotated[float, Field(ge=0, le=2)] = 0.0
    """How far seconds differ from their minute (coefficient of variation), for some ten seconds at a time."""
    noise: NonNegativeFloat = 0.05
    """Relative noise of what workers say of themselves. Offsets are exact, as they are live."""
    crashes_per_worker_day: NonNegativeFloat = 0.0
    """How often a ready worker dies; the pool replaces it."""
    session_timeout_s: NonNegativeFloat = 15.0
    """How long what a dead worker held waits until it is noticed (leases or group)."""
    straggler_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of workers that are slow all their life."""
    straggler_speed: Annotated[float, Field(gt=0, le=1)] = 0.5
    """How fast a slow worker is."""

    @field_validator("shuffle", mode="before")
    @classmethod
    def _handover_named(cls, value: object) -> object:
        if isinstance(value, dict) and len(value) == 1:  # {group: cooperative}
            ((kind, protocol),) = value.items()
            value = f"{kind}-{protocol}"
        return _HANDOVERS.get(str(value), value)

    @model_validator(mode="after")
    def _workers_in_order(self) -> Self:
        if self.workers_min > self.most_workers:
            raise ValueError(f"workers_min ({self.workers_min}) is above workers_max ({self.most_workers})")
        return self

    @property
    def most_workers(self) -> int:
        """`workers_max`, or what stands for it."""
        if self.workers_max is not None:
            return self.workers_max
        return WORKERS_MAX if self.peak_workers is None else 2 * self.peak_workers

    @property
    def startup_typical_s(self) -> float:
        """The fixed time, or the median."""
        return self.startup_s.median if isinstance(self.startup_s, Startup) else self.startup_s

    @property
    def startup_late_s(self) -> float:
        """The fixed time, or the 90 % quantile: what a careful operator would set as lead time."""
        return self.startup_s.p90 if isinstance(self.startup_s, Startup) else self.startup_s


def load_plant(path: Path) -> Plant:
    """The plant in a YAML file. Raises PlantInvalid, listing every mistake at once."""
    try:
        content = read_yaml(path)
    except YamlUnreadable as error:
        raise PlantInvalid(str(error)) from error
    if not isinstance(content, dict | None):
        raise PlantInvalid(f"{path}: the top level must be a mapping of settings")
    return plant_of(content or {}, source=str(path))


def plant_of(content: dict[str, Any], *, source: str = "plant") -> Plant:
    """The plant with these settings. Raises PlantInvalid."""
    try:
        return Plant(**content)
    except ValidationError as error:
        unknown = f"there are {', '.join(Plant.model_fields)}"
        raise PlantInvalid(mistakes_in(error, source, whole="plant", unknown=unknown)) from error
