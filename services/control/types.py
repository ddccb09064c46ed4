"""The border of the tick: all that it may know, all that it may want, all that it remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any

from estimator.capacity import Capacity
from estimator.fleet.standing import Standing
from estimator.reason import Reason
from estimator.rules import Rule
from estimator.situation import Limits, Slo
from estimator.throughput import Bottleneck, Confidence, ResourceLoad, StepTimes, ThroughputWindow
from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory
from services.control.actuation import Actuation
from services.control.errors import TrafficUnavailable
from services.control.explained import ForecastUsed
from services.control.learned import PoolMemory, Throughput
from services.control.pool_state import PoolCapabilities, PoolResize, PoolState, Victims, Worker, WorkerPhase
from services.control.safety import SafetyLimits, SafetyMemory
from services.control.training_quality import TrainingQuality
from shuffler.assignment import Assignment

__all__ = [
    "Actuation",
    "ControlState",
    "Decision",
    "ForecastUsed",
    "Mode",
    "Observation",
    "Override",
    "Policy",
    "PoolCapabilities",
    "PoolResize",
    "PoolState",
    "Reason",
    "Shuffle",
    "TrafficReading",
    "Victims",
    "Worker",
    "WorkerPhase",
    "WorkerReport",
]


class Mode(StrEnum):
    """Whether decisions are carried out."""

    ACT = "act"
    RECOMMEND = "recommend"


class Shuffle(StrEnum):
    """Who decides which worker trains what."""

    LEASES = "leases"
    """Penstock's ledger hands out offset ranges."""
    GROUP = "group"
    """Kafka's own consumer group gives whole partitions to members."""
    OFF = "off"
    """The trainer keeps its own consumer group; Penstock only sizes the pool."""


@dataclass(frozen=True, slots=True)
class TrafficReading:
    """Traffic and progress of one topic, measured at `at_s`.

    The tuples are indexed by partition. `degraded` says what could not be
    measured; then the numbers are the last good ones, `at_s` their time.
    """

    at_s: float
    rate_per_s: float
    trained_per_s: float
    lag: int
    lag_s: float
    partition_rates: tuple[float, ...] = ()
    partition_lags: tuple[int, ...] = ()
    lost: int = 0
    """Samples that Kafka deleted before they were trained, since the meter was opened."""
    quarantined: int = 0
    """Offsets that were given up because every worker that took them fell silent; 0 without leases."""
    degraded: str = ""
    late_share: float | None = None
    """Share of the last week's trained samples that were late; None where nobody counts them."""

    def __post_init__(self) -> None:
        """Raises TrafficUnavailable: what is no number would break the rule, or be remembered by it."""
        told = {name: getattr(self, name) for name in ("at_s", "rate_per_s", "trained_per_s", "lag_s")}
        told |= {"partition_rates": sum(self.partition_rates), "late_share": self.late_share or 0.0}
        for name, number in told.items():
            if not isfinite(number):
                raise TrafficUnavailable(f"what the meter read is no number: {name} is {number}")


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """How a worker's GPU is used."""

    busy: float
    """Share of the time in which it computed: by NVML, or compute time over wall time."""
    memory_bytes: int | None = None
    """In use, by NVML."""


@dataclass(frozen=True, slots=True)
class ShardFigures:
    """What a shard of the parameter server last said of itself."""

    name: str
    queue: int
    """Requests that waited."""
    rows: int
    """Ids with parameters."""
    bytes_in: int
    bytes_out: int
    """Over the network, since it started."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker says of itself, over the window that ends at `at_s`."""

    worker: str
    at_s: float
    trained: int
    """Samples since the worker started."""
    busy: float
    """Fraction of the window spent on training."""
    rate_per_busy_s: float
    """Samples a second of busy time; 0 when nothing was trained."""
    batch: int | None = None
    """Samples in a full batch, where the trainer tells."""
    steps: StepTimes | None = None
    """Where the time of a step goes, where the trainer tells."""
    resources: tuple[ResourceLoad, ...] = ()
    """How busy each shard of the parameter server last said it was, where it tells."""
    quality: TrainingQuality | None = None
    """How good the model is on what it has not seen yet, where the trainer tells."""
    gpu: GpuLoad | None = None
    """How busy its GPU was, where the trainer tells."""
    shards: tuple[ShardFigures, ...] = ()
    """How each shard of the parameter server stands, where the trainer tells."""


@dataclass(frozen=True, slots=True)
class Override:
    """A size that an operator set in the place of the rule's, until `until_s`."""

    workers: int
    until_s: float


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator wants of one job."""

    slo: Slo
    limits: Limits
    rule: Rule[Any]
    capacity_prior: Capacity
    """What an operator says of a lone worker; counts until workers have been seen."""
    lead_time_s: float
    """From asking for a worker to its first trained batch, until that has been measured."""
    pause_s: float = 0.0
    """How long a resize stops training, until that has been measured."""
    workers_unstale_max: int | None = None
    """With more workers than this, gradients would be staler than the operator allows; None: no matter."""
    lone_rates: Mapping[str, float] = field(default_factory=dict)
    """Samples/s of a lone worker by GPU type, where types differ."""
    profile: tuple[ThroughputWindow, ...] = ()
    """What a profile measured before the first decision."""
    stale_after_s: float = 30.0
    """A reading older than this holds the plan."""
    mode: Mode = Mode.ACT
    shuffle: Shuffle = Shuffle.LEASES
    forecast_model: str = ""
    """First model of the forecast chain; another one in its place is a fallback worth telling.

    Empty where models are mixed: then the forecast itself tells when something is wrong with it."""
    paused: bool = False
    """The pool is left as it is; the rule goes on thinking, so that it can be compared."""
    override: Override | None = None
    """Beats `paused`: a size that somebody asked for is wanted."""
    safety: SafetyLimits = field(default_factory=SafetyLimits)
    """How far and how often the pool may be moved."""
    standbys: int | None = 0
    """Workers kept loaded and without leases beside those that train; None is as many as pay off."""
    standing: Standing | None = None
    """What the job may count on in a fleet; None keeps it out of any."""
    learns: bool = True
    """Whether throughput and the pool's times are learned; a simulation whose rule reads neither saves it."""


@dataclass(frozen=True, slots=True)
class ControlState:
    """What a job remembers from tick to tick, and across restarts."""

    sequence: int = 0
    """Decisions made; numbers the next one."""
    planned: int | None = None
    """Standbys included."""
    standbys: int = 0
    """How many of those stand by."""
    standbys_lent: int = 0
    """How many more would, had they not been lent."""
    rule: str = ""
    """Whose `memory` this is; another rule starts afresh."""
    memory: object = None
    throughput: Throughput = field(default_factory=Throughput)
    """C(n) as learned."""
    pool: PoolMemory = field(default_factory=PoolMemory)
    """Lead time, pause and failures as learned."""
    assignment: Assignment = field(default_factory=Assignment)
    pool_failures: int = 0
    """Failures of the pool already told of."""
    safety: SafetyMemory = field(default_factory=SafetyMemory)
    """How often the pool was resized, and what came of it."""
    resized: PoolResize | None = None
    """The last resize that a decision asked for; a successor finds out whether it was carried out."""
    gpu_type: str = ""
    """The type that the job is on or moves to, where it has a pool for each; empty where it has one."""


@dataclass(frozen=True, slots=True)
class Observation:
    """All that a tick may know. If a decision needs it, it is here."""

    job: str
    at_s: float
    traffic: TrafficReading
    pool: PoolState
    reports: tuple[WorkerReport, ...]
    fence: int
    forecast: Forecast | None = None
    history: TrafficHistory | None = None
    """Traffic before this tick, for rules that learn from it themselves."""
    victims: Victims = Victims.ANY
    """Who leaves when the pool shrinks."""
    can_stand_by: bool = True
    """Whether the pool's workers can wait, loaded, without leases."""
    can_place: bool = False
    """Whether the pool brings workers to the nodes that it is told."""
    resizes_elsewhere: int = 0
    """Resizes of the fleet's other jobs within the last hour, and those that are reserved for their swaps."""
    resizes_reserved: int = 0
    """Resizes that a swap of GPU types still needs, so that the job has again what it gave up for it."""
    fleet_max: int | None = None
    """The most workers that the fleet grants the job now; None where it does not hold it back."""
    standbys_lent: int = 0
    """Standbys to do without for now: their GPUs are lent."""
    gpu_type: str = ""
    """The type to be on, where the job has a pool for each; empty where it has one."""
    yielding: tuple[str, ...] = ()
    """Workers that have to go before others: they slow down a guaranteed one on the GPU that they share."""
    leaving_order: tuple[str, ...] = ()
    """Who of those that train goes in which order, by how full their nodes are; else the youngest first."""
    nodes: tuple[str, ...] = ()
    """Where the workers of a pool that grows should be; empty leaves it to the platform."""


@dataclass(frozen=True, slots=True)
class Decision:
    """All that a tick may want. The loop carries it out; nothing else does."""

    id: str
    job: str
    at_s: float
    planned: int
    """Standbys included."""
    requested: int
    """What the platform had been asked for before this decision."""
    ready: int
    reason: Reason
    notes: tuple[Reason, ...]
    numbers: Mapping[str, float]
    resize: PoolResize | None
    assignment: Assignment | None
    """Set when it changed."""
    state: ControlState
    confidence: Confidence = Confidence.LOW
    """How far C(n) can be trusted beyond the sizes seen."""
    bottleneck: Bottleneck = Bottleneck.UNKNOWN
    """What limits the workers as they are."""
    standbys: int = 0
    """How many of `planned` stand by."""
    forecast: ForecastUsed | None = None
    """The forecast that it rested on; None where there was none."""

    @property
    def actuation(self) -> Actuation | None:
        """What goes into the trail before it is done; None where nothing is done."""
        if self.resize is None:
            return None
        return Actuation(
            decision_id=self.id,
            at_s=self.at_s,
            before=self.requested,
            workers=self.resize.workers,
            reason=self.reason,
            fence=self.resize.fence,
            remove=self.resize.remove,
            gpu_type=self.resize.gpu_type,
        )
