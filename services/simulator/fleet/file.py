"""The fleet file: GPU types, jobs with their traffic, and what everybody shares. YAML, read strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError, model_validator

from services.simulator.errors import FleetInvalid
from services.simulator.mistakes import mistakes_in
from services.simulator.plant import Frozen, Startup
from services.yaml_file import YamlUnreadable, read_yaml


class GpuType(Frozen):
    """GPUs of one kind."""

    gpus: PositiveInt
    """How many there are."""
    node_gpus: PositiveInt = 8
    """How many a node has; the last node may have fewer."""
    price: NonNegativeFloat = 1.0
    """What one costs an hour, in any currency."""


class Crowd(Frozen):
    """A sudden crowd; see `FlashCrowd`."""

    at_hour: NonNegativeFloat
    """Hours after scoring starts."""
    height: NonNegativeFloat
    """In multiples of the mean rate."""
    rise_s: PositiveFloat = 120.0
    fall_s: PositiveFloat = 1800.0


class Shape(Frozen):
    """Traffic that is made up: days, weeks, noise and crowds."""

    peak_hour: Annotated[float, Field(ge=0, lt=24)] = 20.0
    """When the day is busiest, in hours after midnight UTC."""
    diurnal: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Half the swing between night and evening, as a share of the mean."""
    weekly: Annotated[float, Field(ge=0, le=1)] = 0.15
    """How far the weekend falls below a weekday."""
    noise: NonNegativeFloat = 0.06
    """Standard deviation of the noise, as a share of the rate."""
    crowds: tuple[Crowd, ...] = ()
    seed: int | None = None
    """Of the noise; drawn from the run's seed and the job's place in the file when not given."""


class FleetJob(Frozen):
    """One job: what arrives, what a worker can train of it, and what it may count on."""

    name: Annotated[str, Field(min_length=1)]
    tenant: str = ""
    weight: NonNegativeFloat = 1.0
    """Against the other jobs; what its lateness counts, too."""
    guaranteed: Annotated[int, Field(ge=0)] = 0
    """Workers of its first type that it has whenever it wants them."""
    rates: dict[str, PositiveFloat]
    """Samples/s of one GPU alone, by the types it may run on; the first holds its guarantee."""
    contention: Annotated[float, Field(ge=0, lt=1)] = 0.02
    """Share of a step that is serialised at the parameter server."""
    trace: Path | None = None
    """CSV with `timestamp,rate`, from the file's own directory; instead of `shape`."""
    shape: Shape | None = None
    phase_h: float = 0.0
    """Hours by which its traffic comes later; a trace goes round."""
    peak_workers: PositiveFloat | None = None
    """Scale its traffic so that the 99.9 % quantile needs so many workers of its first type."""
    mean_per_s: PositiveFloat | None = None
    """Or so that its mean is this; a trace without either is used as it is."""
    workers_max: PositiveInt = 1024

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.rates:
            raise ValueError("rates is empty; name at least one GPU type and what a lone GPU trains there")
        if self.trace is not None and self.shape is not None:
            raise ValueError("has both trace and shape; its traffic comes from one of them")
        if self.peak_workers is not None and self.mean_per_s is not None:
            raise ValueError("has both peak_workers and mean_per_s; its traffic is scaled by one of them")
        if self.trace is None and self.peak_workers is None and self.mean_per_s is None:
            raise ValueError("made-up traffic needs a size: give peak_workers or mean_per_s")
        if self.guaranteed > self.workers_max:
            raise ValueError(f"guaranteed ({self.guaranteed}) is above workers_max ({self.workers_max})")
        return self

    @property
    def label(self) -> str:
        """What tells it from every other job."""
        return f"{self.tenant}/{self.name}" if self.tenant else self.name

    @property
    def home(self) -> str:
        """The type that holds its guarantee."""
        return next(iter(self.rates))


class FleetFile(Frozen):
    """Everything about a fleet's world."""

    gpu_types: dict[str, GpuType]
    jobs: tuple[FleetJob, ...]
    slo_s: PositiveFloat = 60.0
    """A sample trained later than this after its arrival is late."""
    late_share_target: Annotated[float, Field(gt=0, lt=1)] = 0.01
    startup_s: NonNegativeFloat | Startup = 120.0
    """From a GPU being there to the worker's first batch: a number is fixed, `{median, p90}` is lognormal."""
    drain_s: NonNegativeFloat = 2.0
    """A worker told to leave holds its GPU this long."""
    pause_s: NonNegativeFloat = 0.0
    """How long a job stops training when workers come or go; 0 with leases."""
    tick_s: PositiveInt = 10
    """Seconds between two decisions of a policy that has no period of its own."""
    warmup_days: Annotated[float, Field(ge=0)] = 8.0
    """History given to policies before the world begins."""
    days: PositiveFloat = 1.0
    """Scored, after `settle_h` hours that run unscored."""
    settle_h: NonNegativeFloat = 1.0
    from_hour: Annotated[float, Field(ge=0, lt=24)] = 0.0
    """Hour of the day (UTC) at which scoring starts."""
    profile_error: NonNegativeFloat = 0.05
    """How far off (lognormal) the one-GPU rates are that policies are told until a job has run there."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.gpu_types:
            raise ValueError("gpu_types is empty; there is nothing to share")
        if not self.jobs:
            raise ValueError("jobs is empty; there is nothing to simulate")
        seen: set[str] = set()
        for job in self.jobs:
            if job.label in seen:
                raise ValueError(f"two jobs are called {job.label!r}; tell them apart by name or tenant")
            seen.add(job.label)
            for kind in job.rates:
                if kind not in self.gpu_types:
                    there = ", ".join(self.gpu_types)
                    raise ValueError(f"job {job.label!r} has a rate on {kind!r}; gpu_types has {there}")
        for kind, there_are in self.gpu_types.items():
            promised = sum(job.guaranteed for job in self.jobs if job.home == kind)
            if promised > there_are.gpus:
                raise ValueError(
                    f"{promised} GPUs of {kind!r} are guaranteed and there are {there_are.gpus}; "
                    "lower `guaranteed` or add GPUs"
                )
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """The types by name."""
        return tuple(self.gpu_types)

    @property
    def startup_late_s(self) -> float:
        """What a careful operator would set as lead time."""
        return self.startup_s.p90 if isinstance(self.startup_s, Startup) else self.startup_s


def load_fleet(path: Path) -> FleetFile:
    """The fleet in a YAML file; traces are found from its directory. Raises FleetInvalid."""
    try:
        content = read_yaml(path)
    except YamlUnreadable as error:
        raise FleetInvalid(str(error)) from error
    if not isinstance(content, dict):
        raise FleetInvalid(f"{path}: the top level must be a mapping with gpu_types and jobs")
    fleet = fleet_of(content, source=str(path))
    jobs = tuple(
        job if job.trace is None else job.model_copy(update={"trace": path.parent / job.trace})
        for job in fleet.jobs
    )
    return fleet.model_copy(update={"jobs": jobs})


def fleet_of(content: dict[str, Any], *, source: str = "fleet") -> FleetFile:
    """The fleet with these settings. Raises FleetInvalid."""
    try:
        return FleetFile(**content)
    except ValidationError as error:
        unknown = "see docs/fleet.md for those that there are"
        raise FleetInvalid(mistakes_in(error, source, whole="fleet", unknown=unknown)) from error
