"""What one worker should be made of: how much of a GPU, and how many CPU cores to feed it (PAI)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from estimator.fleet.errors import InvalidFleet
from estimator.fleet.standing import FRACTIONS

GPU_SHARES = (*FRACTIONS, 1.0)


class Advice(StrEnum):
    """What to change of a worker, in the order in which it helps."""

    RIGHT = "right"
    """It is as cheap as it can be."""
    ADD_CORES = "add_cores"
    """The GPU waits for input: cores first, GPUs would only wait more."""
    SMALLER_GPU = "smaller_gpu"
    """A share of a GPU trains as cheaply as it needs."""
    LARGER_GPU = "larger_gpu"
    """A larger share costs less per sample."""
    FEWER_CORES = "fewer_cores"
    """Some cores only wait."""
    INPUT_BOUND = "input_bound"
    """Even with every core allowed the GPU waits for input."""


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """Parts of one step, as measured on a whole GPU."""

    input_core_s: float
    """Work of the input pipeline that cores share: T_in with one core, less `input_fixed_s`."""
    compute_s: float
    """T_gpu on a whole GPU."""
    input_fixed_s: float = 0.0
    """What more cores do not shorten."""
    gpu_busy: float = 1.0
    """How much of the GPU a step fills while it computes: a share above it slows nothing down."""
    batch: int = 1

    def __post_init__(self) -> None:
        times = (self.input_core_s, self.compute_s, self.input_fixed_s)
        if not all(math.isfinite(time) and time >= 0 for time in times) or self.compute_s == 0:
            raise InvalidFleet(f"step times {times} are not times; the computation takes more than none")
        if not 0 < self.gpu_busy <= 1 or self.batch < 1:
            raise InvalidFleet(f"gpu_busy is {self.gpu_busy}, in (0, 1]; batch is {self.batch}, from 1")

    def input_s(self, cores: int) -> float:
        """T_in with so many cores."""
        return self.input_core_s / cores + self.input_fixed_s

    def gpu_s(self, share: float) -> float:
        """T_gpu on a share of a GPU: as on a whole one while the step does not fill the share."""
        return self.compute_s * max(1.0, self.gpu_busy / share)


@dataclass(frozen=True, slots=True)
class WorkerShape:
    """A share of a GPU and cores, what a sample costs with them, and what the present shape lacks."""

    gpu_share: float
    cores: int
    cost_per_sample: float
    samples_per_s: float
    advice: Advice = Advice.RIGHT


def shaped(
    times: WorkerTimes,
    *,
    gpu_price: float,
    core_price: float,
    cores_max: int,
    now: tuple[float, int] | None = None,
) -> WorkerShape:
    """The shape that trains a sample for the least with input not the bottleneck: T_in <= T_gpu.

    Prices are per hour. Where no number of cores feeds even the smallest share, the cheapest with the
    most cores is taken, and the advice says that input binds. `now` is the present (share, cores).
    """
    shapes = [
        _priced(times, share, cores, gpu_price, core_price)
        for share in GPU_SHARES
        for cores in range(1, cores_max + 1)
    ]
    fed = [shape for shape in shapes if times.input_s(shape.cores) <= times.gpu_s(shape.gpu_share)]
    starved = [shape for shape in shapes if shape.cores == cores_max]
    least = min(shape.cost_per_sample for shape in fed or starved)
    # Of those that cost alike the largest share: fewer workers ask less of what they share.
    alike = [shape for shape in fed or starved if shape.cost_per_sample <= least * (1 + 1e-9)]
    best = max(alike, key=lambda shape: (shape.gpu_share, -shape.cores))
    advice = Advice.INPUT_BOUND if not fed else next(_advice(times, best, now), Advice.RIGHT)
    return WorkerShape(best.gpu_share, best.cores, best.cost_per_sample, best.samples_per_s, advice)


def _priced(times: WorkerTimes, share: float, cores: int, gpu_price: float, core_price: float) -> WorkerShape:
    # Input and GPU overlap: a step takes as long as the slower of them.
    step_s = max(times.input_s(cores), times.gpu_s(share))
    per_s = (share * gpu_price + cores * core_price) / 3600.0
    return WorkerShape(share, cores, per_s * step_s / times.batch, times.batch / step_s)


def _advice(times: WorkerTimes, best: WorkerShape, now: tuple[float, int] | None) -> Iterator[Advice]:
    if now is None:
        return
    share, cores = now
    if times.input_s(cores) > times.gpu_s(share) and cores < best.cores:
        yield Advice.ADD_CORES
    if best.gpu_share < share:
        yield Advice.SMALLER_GPU
    if best.gpu_share > share:
        yield Advice.LARGER_GPU
    if best.cores < cores:
        yield Advice.FEWER_CORES
