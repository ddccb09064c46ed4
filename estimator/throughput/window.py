"""What one window of training showed, and which of it can be believed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

GRAIN = 0.02
"""Busy fractions this little above 1 are the grain of a clock, not a lie."""
RATE_MAX = 1e12
"""Samples a second that no pool trains: a counter that overflowed, or was read in other units."""
RATE_MIN = 1e-9
"""Samples a second that are as good as none."""
WORKERS_MAX = 100_000
HARDLY_BUSY = 0.05
"""Below this mean busy fraction a window measures the clock's grain more than the workers."""
FULLY_BUSY = 0.95
DISAGREES = 1.5
"""What workers say that they trained and what the offsets say are the same but for noise and the edges of the
window; this far apart the workers count something else."""


class Lie(StrEnum):
    """What a window claimed and cannot be. Used as a metric label, so the set is closed."""

    RATE = "rate"
    """Samples a second that are negative, absurd, or zero while workers were busy: a counter was reset."""
    OFFSETS = "offsets"
    """Samples a second that the offsets contradict: the window then counts as one without telemetry."""
    WORKERS = "workers"
    """Fewer than none, or more than there can be."""
    BUSY = "busy"
    """Busy fractions below 0, above 1, or none at all while samples were trained."""
    STEP_TIMES = "step_times"
    """A step's part that takes no time, or longer than the whole step."""
    RESOURCE = "resource"
    """A shared resource busy below 0 or above 1, or idle while it was used."""
    CLOCK = "clock"
    """No time at all, or that of the window before it: the same one again."""
    BATCH = "batch"
    """A batch without samples."""
    OTHER_GPU = "other_gpu"
    """Of a GPU type that another model learns."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Mean parts of one step of one worker, each measured on its own, though they may overlap."""

    input_s: float
    """T_in: reading and decoding the batch."""
    compute_s: float
    """T_gpu: forward and backward."""
    wait_s: float
    """From asking the parameter server to its answer, pull and push together."""
    pull_s: float = 0.0
    """The pull's part of `wait_s`, for people: the model takes both together."""
    starved_s: float = 0.0
    """How long the device had nothing to compute while this batch was read and pulled, for people too."""

    @classmethod
    def mean_of(cls, steps: Sequence[StepTimes]) -> StepTimes | None:
        """Part by part; None of no steps."""
        if not steps:
            return None
        return cls(
            input_s=fmean(step.input_s for step in steps),
            compute_s=fmean(step.compute_s for step in steps),
            wait_s=fmean(step.wait_s for step in steps),
            pull_s=fmean(step.pull_s for step in steps),
            starved_s=fmean(step.starved_s for step in steps),
        )


@dataclass(frozen=True, slots=True)
class ResourceLoad:
    """Something that all workers share: a shard of the parameter server, its network."""

    name: str
    busy: float
    """rho: the fraction of the window in which it worked."""
    service_cv2: float | None = None
    """Variance over squared mean of its service times; None when not measured."""


@dataclass(frozen=True, slots=True)
class ThroughputWindow:
    """One window, of 10 s or more, in which the number of workers did not change.

    Built from telemetry as it came: nothing is checked here, `vetted` does.
    """

    at_s: float
    ready: int
    """n: workers that train."""
    samples_per_s: float
    """X: samples trained, from offsets or from the workers' own counts."""
    busy: float | None = None
    """Sum of the workers' busy fractions, waits inside a step counted as busy; None without telemetry."""
    saturated: bool = False
    """Samples waited all the time, so that X is all that these workers can do."""
    progress_per_s: float | None = None
    """X again, by the offsets, where the workers' own counts were taken for it; None when not known."""
    progress_compares: bool = False
    """Whether it may contradict them: all of them told all the time, and the offsets went on evenly, not in
    lumps that a window may miss or have all of."""
    batch: int | None = None
    """Samples in a full batch, as configured; another number is another curve."""
    steps: StepTimes | None = None
    resources: tuple[ResourceLoad, ...] = ()
    partitions: int | None = None
    """Where leases are off, a worker beyond the partitions idles."""
    gpu_type: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """What a window says of capacity: `busy` workers' worth of time trained at `log_speed` each.

    While a job keeps up, X is the traffic and says nothing about C(n); X over the
    busy workers is never censored in that way.
    """

    workers: int
    busy: float
    log_speed: float
    """log(X / busy): samples per second of a worker's busy time."""


def busy_sum(fractions: Iterable[float], *, ready: int) -> float | None:
    """The sum over all ready workers, those that did not report counted as the mean of the others.

    >>> busy_sum([0.5, 0.7], ready=4)
    2.4
    """
    reported = list(fractions)
    return sum(reported) * ready / len(reported) if reported else None


def vetted(
    window: ThroughputWindow, *, last_s: float | None, gpu_type: str
) -> tuple[ThroughputWindow | None, tuple[Lie, ...]]:
    """The window without what it lies about, and the lies; None when nothing of it can be learned from.

    A broken exporter of one shard must not cost what the workers say: a lie about
    steps or a resource drops that part alone.
    """
    lie = _lie_about_all(window, last_s, gpu_type)
    if lie is not None:
        return None, (lie,)
    progress = window.progress_per_s
    if progress is not None and _contradicts(progress, window):
        # Whether it is their samples or their busy fractions that are wrong, nobody can tell.
        untold = replace(window, samples_per_s=progress, busy=None, steps=None, resources=())
        return untold, (Lie.OFFSETS,)
    lies = []
    steps, resources = window.steps, window.resources
    if steps is not None and not _steps_can_be(window, steps):
        steps, lies = None, [Lie.STEP_TIMES]
    sound = tuple(load for load in resources if _load_can_be(window, load))
    lies += [Lie.RESOURCE] * (len(resources) - len(sound))
    if not lies:
        return window, ()
    return replace(window, steps=steps, resources=sound), tuple(lies)


def point_of(window: ThroughputWindow) -> Point | None:
    """What a sound window says of capacity; None when that is nothing: idle, or censored."""
    n, rate = window.ready, window.samples_per_s
    if n < 1 or rate < RATE_MIN:
        return None
    if window.busy is None:
        return Point(n, float(n), math.log(rate / n)) if window.saturated else None
    if window.busy < HARDLY_BUSY * n:
        return None
    if window.saturated and window.busy >= FULLY_BUSY * n:
        return Point(n, float(n), math.log(_full_rate(window, window.busy) / n))
    busy = min(window.busy, float(n))
    return Point(n, busy, math.log(rate / busy))


def _full_rate(window: ThroughputWindow, busy: float) -> float:
    """What workers train that always have samples, and are always busy whatever they say.

    If their clocks miss a part of each second, their samples are right and X is what they train. If
    their fractions are cut off at 1, errors go one way only and X is too small by as much as busy
    is; always taken for X, that made every full pool look 2 % slower than it was. The offsets know, as
    far as they agree with one of the two.
    """
    told, progress = window.samples_per_s, window.progress_per_s
    if progress is None or math.isnan(progress):
        return told
    most = told * max(window.ready / busy, 1.0)
    return min(max(progress, (1 - GRAIN) * told), (1 + GRAIN) * most)


def _lie_about_all(window: ThroughputWindow, last_s: float | None, gpu_type: str) -> Lie | None:
    # A clock may be set back; if earlier windows were refused, one bad time would deafen the model.
    if not math.isfinite(window.at_s) or window.at_s == last_s:
        return Lie.CLOCK
    if window.gpu_type != gpu_type:
        return Lie.OTHER_GPU
    if not 0 <= window.samples_per_s <= RATE_MAX:  # also rejects NaN
        return Lie.RATE
    if not 0 <= window.ready <= WORKERS_MAX:
        return Lie.WORKERS
    if window.batch is not None and window.batch < 1:
        return Lie.BATCH
    return _lie_about_busy(window)


def _lie_about_busy(window: ThroughputWindow) -> Lie | None:
    busy, n = window.busy, window.ready
    trained = window.samples_per_s > 0
    if n < 1:
        return Lie.RATE if trained else None
    if busy is None:
        return Lie.RATE if window.saturated and not trained else None
    if not (math.isfinite(busy) and 0 <= busy <= (1 + GRAIN) * n):
        return Lie.BUSY
    if trained and busy == 0:
        return Lie.BUSY
    return Lie.RATE if not trained and busy >= HARDLY_BUSY * n else None


def _contradicts(progress: float, window: ThroughputWindow) -> bool:
    """Whether workers count other samples than Kafka does: so many times as many, or as few.

    Offsets that stand still while workers train are a commit that failed, and say nothing.
    """
    told = window.samples_per_s
    if window.busy is None or not window.progress_compares:
        return False
    if told < RATE_MIN or not RATE_MIN <= progress <= RATE_MAX:  # also rejects NaN
        return False
    return not 1 / DISAGREES <= told / progress <= DISAGREES


def _steps_can_be(window: ThroughputWindow, steps: StepTimes) -> bool:
    parts = (steps.input_s, steps.compute_s, steps.wait_s)
    if not all(math.isfinite(part) and part >= 0 for part in parts) or steps.compute_s <= 0:
        return False
    if window.batch is None or window.busy is None or window.samples_per_s <= 0:
        return False
    step_s = window.busy * window.batch / window.samples_per_s
    return max(parts) <= 1.25 * step_s


def _load_can_be(window: ThroughputWindow, load: ResourceLoad) -> bool:
    if not (math.isfinite(load.busy) and 0 <= load.busy <= 1 + GRAIN):
        return False
    cv2 = load.service_cv2
    if cv2 is not None and not (math.isfinite(cv2) and cv2 >= 0):
        return False
    return load.busy > 0 or window.samples_per_s == 0
